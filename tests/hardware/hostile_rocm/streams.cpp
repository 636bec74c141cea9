// SPDX-License-Identifier: Apache-2.0
//
// The hostile ROCm's streams, events, copies, words, graphs and kernels. A device has four hardware queues of
// each priority; more streams join those with the fewest, and what is in a queue runs in its order, whatever
// stream it came from. The default stream is one of them.

#include <cxxabi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "shim.h"

using namespace hostile;
namespace gpu = fairlead::device;

struct gpu::HipEvent {
  gpu::Event event = nullptr;
  bool captured = false;
};
// Instantiation takes what the provider below has made ready to launch.
struct gpu::HipGraph {
  gpu::Graph graph = nullptr;
};

namespace {

struct Queue {
  gpu::Stream stream = nullptr;
  int streams = 0;
};

struct StreamRecord {
  int device = 0;
  bool blocking = true;  // it and the default stream wait for each other
  bool live = true;
  bool stuck = false;  // its work never ends
  Queue* queue = nullptr;
  gpu::Event event = nullptr, last = nullptr;  // the latter behind all its work; null: it had none
  gpu::Stream capturing = nullptr;             // takes the work while the stream is being captured
};

constexpr size_t queues_of_a_priority = 4;
constexpr int lowest = 1, highest = -1;

std::mutex mutex;
auto& queues =
    *new std::map<std::pair<int, int>, std::vector<std::unique_ptr<Queue>>>;  // by device and priority
auto& streams = *new std::vector<std::unique_ptr<StreamRecord>>;
auto& default_streams = *new std::map<int, StreamRecord*>;

Queue* join_queue(int device, int priority) {
  auto& pool = queues[{device, priority}];
  auto fewest =
      std::min_element(pool.begin(), pool.end(), [](auto& a, auto& b) { return a->streams < b->streams; });
  if (pool.size() < queues_of_a_priority && (fewest == pool.end() || (*fewest)->streams > 0)) {
    auto queue = std::make_unique<Queue>();
    auto kind = priority == highest ? gpu::StreamKind::urgent : gpu::StreamKind::library;
    if (backend()->create_stream(device, &queue->stream, kind) != Error::none) return nullptr;
    pool.push_back(std::move(queue));
    fewest = std::prev(pool.end());
  }
  ++(*fewest)->streams;
  return fewest->get();
}

StreamRecord* make_stream(int device, bool blocking, int priority) {
  auto record = std::make_unique<StreamRecord>();
  record->device = device;
  record->blocking = blocking;
  record->queue = join_queue(device, priority);
  if (!record->queue || backend()->create_event(device, &record->event) != Error::none) return nullptr;
  streams.push_back(std::move(record));
  return streams.back().get();
}

// Under the mutex; null is the default stream of the current device, 2 that of the thread.
StreamRecord* record_of(HipAbi::Stream stream) {
  thread_local std::map<int, StreamRecord*> streams_of_thread;
  if (stream == HipAbi::legacy_stream()) {
    if (!behaviour.has_legacy_stream) die("hipStreamLegacy is a handle of later releases");
    stream = nullptr;
  }
  if (reinterpret_cast<uintptr_t>(stream) == 2) {
    StreamRecord*& made = streams_of_thread[device()];
    if (!made || !made->queue) made = make_stream(device(), true, 0);
    return made;
  }
  if (stream) {
    auto* const record = reinterpret_cast<StreamRecord*>(stream);
    if (!record->queue) die("a stream of a device that was reset is used");
    return record;
  }
  StreamRecord*& made = default_streams[device()];
  if (!made) made = make_stream(device(), false, 0);
  if (!made) die("no default stream");
  return made;
}

}  // namespace

void hostile::end_streams_of(int device) {
  std::lock_guard lock(mutex);
  for (auto& record : streams) {
    if (record->device != device) continue;
    record->live = false;
    record->queue = nullptr;
  }
  std::erase_if(queues, [&](const auto& entry) { return entry.first.first == device; });
  default_streams.erase(device);
}

namespace {

void wait_for(StreamRecord* record, StreamRecord* other) {
  if (other && other != record && other->last) backend()->wait_event(record->queue->stream, other->last);
}

// Gives a stream work, behind what it must wait for. A copy may wait for the stream in the call, so other
// calls must be possible meanwhile.
template <class Work>
int submit(HipAbi::Stream stream, Work work, bool may_wait = false) {
  if (int code = begin()) return code;
  show_to_gpu();
  std::unique_lock lock(mutex);
  StreamRecord* record = record_of(stream);
  note_active(record->device);
  if (record->capturing) return remember(work(record->capturing));
  auto default_stream = default_streams.find(record->device);
  if (default_stream != default_streams.end() && default_stream->second == record) {
    for (auto& other : streams)
      if (other->live && other->blocking && other->device == record->device) wait_for(record, other.get());
  } else if (record->blocking && default_stream != default_streams.end()) {
    wait_for(record, default_stream->second);
  }
  if (may_wait) lock.unlock();
  Error error = work(record->queue->stream);
  if (may_wait) lock.lock();
  if (!record->last) record->last = record->event;
  if (error == Error::none) error = backend()->record_event(record->last, record->queue->stream);
  return remember(error);
}

gpu::Capture capture_of(gpu::Stream stream) {
  gpu::Capture capture;
  if (stream && backend()->capture_of(stream, &capture) != Error::none) die(backend()->error_text());
  return capture;
}

// The streams whose capture has ended go back to their hardware queues.
void leave_ended_captures() {
  for (auto& record : streams)
    if (record->capturing && capture_of(record->capturing).state == gpu::Capture::State::none) {
      backend()->destroy_stream(record->capturing);
      record->capturing = nullptr;
    }
}

Error state_of(const StreamRecord& record) {
  if (record.stuck) return Error::not_ready;
  if (record.capturing) return backend()->query_stream(record.capturing);
  return backend()->query_event(record.event);  // refused beside a capture, even if there was no work
}

}  // namespace

SHIM int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = lowest;
  *greatest = highest;
  return begin();
}
DISPATCHED(hipStreamCreateWithPriority, (HipAbi::Stream * stream, unsigned flags, int priority),
           (stream, flags, priority)) {
  if (int code = begin()) return code;
  std::lock_guard lock(mutex);
  const bool blocking = !(flags & gpu::driver_flag::stream_non_blocking);
  StreamRecord* made = make_stream(device(), blocking, std::clamp(priority, highest, lowest));
  if (!made) return remember(result::out_of_memory);
  *stream = reinterpret_cast<HipAbi::Stream>(made);
  return result::success;
}

namespace {

// A marker of the default stream waits for all streams that synchronise with it, and these wait for the
// marker before their later work.
int mark(HipAbi::Stream stream) {
  if (stream) return result::success;
  {
    std::lock_guard lock(mutex);
    const int current = record_of(stream)->device;
    const bool waits = std::ranges::any_of(streams, [&](auto& other) {
      return other->live && other->blocking && other->device == current && state_of(*other) != Error::none;
    });
    if (!waits) return result::success;
  }
  return submit(stream, [](gpu::Stream) { return Error::none; });
}

int query_behind_marker(HipAbi::Stream stream) {
  std::unique_lock lock(mutex);
  const Error state = state_of(*record_of(stream));
  lock.unlock();
  if (state == Error::none) show_to_cpu();
  return remember(state);
}

}  // namespace

DISPATCHED(hipStreamQuery, (HipAbi::Stream stream), (stream)) {
  if (int code = begin()) return code;
  if (int code = mark(stream)) return code;
  return query_behind_marker(stream);
}
DISPATCHED(hipStreamSynchronize, (HipAbi::Stream stream), (stream)) {
  if (int code = begin()) return code;
  if (int code = mark(stream)) return code;
  for (;; sched_yield())
    if (const int code = query_behind_marker(stream); code != result::not_ready) return code;
}
DISPATCHED(hipStreamDestroy, (HipAbi::Stream stream), (stream)) {
  int code = hipStreamSynchronize_itself(stream);
  std::lock_guard lock(mutex);
  StreamRecord* record = record_of(stream);
  record->live = false;
  if (record->capturing) backend()->destroy_stream(std::exchange(record->capturing, nullptr));
  --record->queue->streams;
  return code;
}
#if FAIRLEAD_HOSTILE_MAJOR >= 6
SHIM int hipStreamGetDevice(HipAbi::Stream stream, HipAbi::Device* device) {
  if (int code = begin()) return code;
  std::lock_guard lock(mutex);
  *device = ordinal_of(record_of(stream)->device);
  return result::success;
}
#endif

namespace {

bool is_hidden(const Allocation& memory) {
  return memory.kind == MemoryKind::device && ordinal_of(owner_of(memory)) < 0;
}

// From one GPU to another process's memory, in several pieces.
bool is_spread(const void* to, const void* from, size_t bytes) {
  constexpr size_t shortest = 4096;
  return bytes >= shortest && query(from).kind == MemoryKind::device &&
         is_imported(reinterpret_cast<const void*>(query(to).base));
}

}  // namespace

DISPATCHED(hipMemcpyAsync, (void* to, const void* from, size_t bytes, int kind, HipAbi::Stream stream),
           (to, from, bytes, kind, stream)) {
  if (kind != HipAbi::copy_default) return remember(result::invalid_value);
  if (behaviour.loses_copies_to_hidden && is_spread(to, from, bytes) && is_hidden(query(to)))
    die("a copy to memory of a GPU that this process does not see never ends");
  if (has_fault("copies_stick") && is_spread(to, from, bytes)) {
    std::lock_guard lock(mutex);
    record_of(stream)->stuck = true;
    return result::success;
  }
  return submit(
      stream, [&](gpu::Stream queue) { return backend()->copy(to, from, bytes, queue); }, true);
}
DISPATCHED(hipMemcpy, (void* to, const void* from, size_t bytes, int kind), (to, from, bytes, kind)) {
  int code = hipMemcpyAsync_itself(to, from, bytes, kind, nullptr);
  return code ? code : hipStreamSynchronize_itself(nullptr);
}
DISPATCHED(hipMemcpy2DAsync,
           (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
            int kind, HipAbi::Stream stream),
           (to, to_pitch, from, from_pitch, width, height, kind, stream)) {
  if (kind != HipAbi::copy_default) return remember(result::invalid_value);
  return submit(
      stream,
      [&](gpu::Stream queue) {
        return backend()->copy_2d(to, to_pitch, from, from_pitch, width, height, queue);
      },
      true);
}
DISPATCHED(hipMemcpy2D,
           (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
            int kind),
           (to, to_pitch, from, from_pitch, width, height, kind)) {
  int code = hipMemcpy2DAsync_itself(to, to_pitch, from, from_pitch, width, height, kind, nullptr);
  return code ? code : hipStreamSynchronize_itself(nullptr);
}
DISPATCHED(hipMemsetD8Async, (void* to, unsigned char byte, size_t bytes, HipAbi::Stream stream),
           (to, byte, bytes, stream)) {
  return submit(stream, [&](gpu::Stream queue) { return backend()->fill(to, byte, bytes, queue); });
}

SHIM int hipEventCreateWithFlags(HipAbi::Event* event, unsigned) {
  if (int code = begin()) return code;
  auto made = std::make_unique<gpu::HipEvent>();
  int code = remember(backend()->create_event(device(), &made->event));
  if (!code) *event = made.release();
  return code;
}
DISPATCHED(hipEventDestroy, (HipAbi::Event event), (event)) {
  std::unique_ptr<gpu::HipEvent> record(event);
  return remember(backend()->destroy_event(record->event));
}
DISPATCHED(hipEventRecord, (HipAbi::Event event, HipAbi::Stream stream), (event, stream)) {
  return submit(stream, [&](gpu::Stream queue) {
    event->captured = capture_of(queue).state != gpu::Capture::State::none;
    return backend()->record_event(event->event, queue);
  });
}
DISPATCHED(hipEventQuery, (HipAbi::Event event), (event)) {
  Error state = backend()->query_event(event->event);
  if (state == Error::none) show_to_cpu();
  return remember(state);
}
DISPATCHED(hipStreamWaitEvent, (HipAbi::Stream stream, HipAbi::Event event, [[maybe_unused]] unsigned flags),
           (stream, event, flags)) {
  if (event->captured) {
    std::lock_guard lock(mutex);
    StreamRecord* record = record_of(stream);
    if (!record->capturing && backend()->create_stream(record->device, &record->capturing) != Error::none)
      return remember(result::out_of_memory);
  }
  const int code =
      submit(stream, [&](gpu::Stream queue) { return backend()->wait_event(queue, event->event); });
  std::lock_guard lock(mutex);
  leave_ended_captures();
  return code;
}

// ---- Words and host functions --------------------------------------------------------------------------

namespace {

// A word of host memory, and what HIP's kernel waits for: it compares unsigned numbers.
struct Polled {
  const uint32_t* word;
  uint32_t value, mask;
};

void poll(void* argument) {
  std::unique_ptr<Polled> polled(static_cast<Polled*>(argument));
  while ((__atomic_load_n(polled->word, __ATOMIC_ACQUIRE) & polled->mask) < polled->value) sched_yield();
}

// These functions are not captured, but executed at once.
template <class Work>
int submit_word(HipAbi::Stream stream, void* address, Work work) {
  {
    std::lock_guard lock(mutex);
    if (record_of(stream)->capturing) die("a word is written or waited for while the stream is captured");
  }
  void* word = at_host(address);
  if (query(word).kind == MemoryKind::host || (word == address && query(word).kind == MemoryKind::pinned))
    return remember(result::invalid_value);
  return submit(stream, [&](gpu::Stream queue) { return work(queue, static_cast<uint32_t*>(word)); });
}

}  // namespace

DISPATCHED(hipStreamWriteValue32,
           (HipAbi::Stream stream, void* address, unsigned value, [[maybe_unused]] unsigned flags),
           (stream, address, value, flags)) {
  return submit_word(stream, address, [&](gpu::Stream queue, uint32_t* word) {
    return backend()->write_word(queue, word, value);
  });
}
SHIM int hipStreamWaitValue32(HipAbi::Stream stream, void* address, unsigned value, unsigned flags,
                              unsigned mask) {
  if (flags != gpu::driver_flag::wait_value_geq) return remember(result::invalid_value);
  return submit_word(stream, address, [&](gpu::Stream queue, uint32_t* word) {
    return over_sim() && query(word).kind == MemoryKind::pinned
               ? backend()->call_host(queue, poll, new Polled{word, value, mask})
               : backend()->wait_word(queue, word, value);
  });
}
DISPATCHED(hipLaunchHostFunc, (HipAbi::Stream stream, void (*function)(void*), void* argument),
           (stream, function, argument)) {
  return submit(stream, [&](gpu::Stream queue) { return backend()->call_host(queue, function, argument); });
}

// ---- Capture and graphs --------------------------------------------------------------------------------

SHIM int hipStreamGetCaptureInfo(HipAbi::Stream stream, int* status, unsigned long long* id) {
  if (int code = begin()) return code;
  std::lock_guard lock(mutex);
  const bool implicit = !stream && std::ranges::any_of(streams, [](auto& other) {
    return other->live && other->blocking && other->capturing;
  });
  if (implicit) return remember(result::stream_capture_implicit);
  const gpu::Capture capture = capture_of(record_of(stream)->capturing);
  *status = static_cast<int>(capture.state);
  if (id) *id = capture.id;
  return result::success;
}
SHIM int hipStreamIsCapturing(HipAbi::Stream stream, int* status) {
  return hipStreamGetCaptureInfo(stream, status, nullptr);
}
SHIM int hipThreadExchangeStreamCaptureMode(int* mode) {
  auto exchanged = static_cast<gpu::CaptureMode>(*mode);
  int code = remember(backend()->exchange_capture_mode(&exchanged));
  *mode = static_cast<int>(exchanged);
  return code;
}
DISPATCHED(hipStreamBeginCapture, (HipAbi::Stream stream, int mode), (stream, mode)) {
  if (int code = begin()) return code;
  std::lock_guard lock(mutex);
  StreamRecord* record = record_of(stream);
  if (!stream || record->capturing) return remember(Error::failed);
  Error error = backend()->create_stream(record->device, &record->capturing);
  if (error != Error::none) return remember(error);
  return remember(backend()->begin_capture(record->capturing, static_cast<gpu::CaptureMode>(mode)));
}
DISPATCHED(hipStreamEndCapture, (HipAbi::Stream stream, HipAbi::Graph* graph), (stream, graph)) {
  if (int code = begin()) return code;
  std::lock_guard lock(mutex);
  StreamRecord* record = record_of(stream);
  if (!record->capturing) return remember(Error::failed);
  auto made = std::make_unique<gpu::HipGraph>();
  Error error = backend()->end_capture(record->capturing, &made->graph);
  leave_ended_captures();
  if (error == Error::none) *graph = made.release();
  return remember(error);
}
DISPATCHED(hipGraphInstantiateWithFlags,
           (HipAbi::RunnableGraph * runnable, HipAbi::Graph graph, [[maybe_unused]] unsigned long long flags),
           (runnable, graph, flags)) {
  if (!graph->graph) die("a graph is instantiated twice");
  *runnable = reinterpret_cast<HipAbi::RunnableGraph>(std::exchange(graph->graph, nullptr));
  return result::success;
}
DISPATCHED(hipGraphDestroy, (HipAbi::Graph graph), (graph)) {
  std::unique_ptr<gpu::HipGraph> record(graph);
  return record->graph ? remember(backend()->destroy_graph(record->graph)) : result::success;
}
DISPATCHED(hipGraphLaunch, (HipAbi::RunnableGraph graph, HipAbi::Stream stream), (graph, stream)) {
  return submit(stream, [&](gpu::Stream queue) {
    return backend()->launch_graph(reinterpret_cast<gpu::Graph>(graph), queue);
  });
}
DISPATCHED(hipGraphExecDestroy, (HipAbi::RunnableGraph graph), (graph)) {
  return remember(backend()->destroy_graph(reinterpret_cast<gpu::Graph>(graph)));
}

// ---- Kernels -------------------------------------------------------------------------------------------

namespace {

// "void scope::write_byte(unsigned char*)": the provider below has none but names of C.
std::string plain_name(const char* symbol) {
  if (std::strncmp(symbol, "_Z", 2) != 0) return symbol;
  char* demangled = abi::__cxa_demangle(symbol, nullptr, nullptr, nullptr);
  std::string name = demangled ? demangled : symbol;
  std::free(demangled);
  name = name.substr(0, name.find('('));
  return name.substr(name.find_last_of(": ") + 1);
}

// In a bundle the host's part, which hipcc leaves empty, is the address of the code for the provider below.
gpu::CodeImage code_in(const void* bundle) {
  constexpr size_t first_part = 32;  // behind the magic and the number of parts
  const auto* bytes = static_cast<const unsigned char*>(bundle);
  uint64_t offset;
  std::memcpy(&offset, bytes + first_part, sizeof offset);
  gpu::CodeImage code{"cpu", nullptr, 0};
  std::memcpy(&code.bytes, bytes + offset, sizeof code.bytes);
  return code;
}

}  // namespace

// A module is what the provider below takes for code; it stays, as that knows it by its address.
DISPATCHED(hipModuleLoadData, (HipAbi::Module * module, const void* image), (module, image)) {
  if (int code = begin()) return code;
  const auto* bytes = static_cast<const unsigned char*>(image);
  if (std::memcmp(bytes, "__CLANG_OFFLOAD_BUNDLE__", 24) == 0) {
    *module = reinterpret_cast<HipAbi::Module>(new gpu::CodeImage(code_in(image)));
    return result::success;
  }
  const bool ptx = bytes[0] == '/' || bytes[0] == '.';
  if (std::memcmp(bytes, "\177ELF", 4) == 0 || ptx == over_sim()) return remember(result::no_binary_for_gpu);
  *module = reinterpret_cast<HipAbi::Module>(new gpu::CodeImage{ptx ? "ptx" : "cpu", bytes, 0});
  return result::success;
}
DISPATCHED(hipModuleGetFunction, (HipAbi::Function * function, HipAbi::Module module, const char* name),
           (function, module, name)) {
  gpu::Kernel kernel = nullptr;
  const int code = remember(backend()->find_kernel(device(), reinterpret_cast<gpu::CodeImage*>(module), 1,
                                                   plain_name(name).c_str(), &kernel));
  if (!code) *function = reinterpret_cast<HipAbi::Function>(kernel);
  return code;
}

DISPATCHED(hipModuleLaunchKernel,
           (HipAbi::Function function, unsigned grid, [[maybe_unused]] unsigned grid_y,
            [[maybe_unused]] unsigned grid_z, unsigned block, [[maybe_unused]] unsigned block_y,
            [[maybe_unused]] unsigned block_z, [[maybe_unused]] unsigned shared, HipAbi::Stream stream,
            void** arguments, void** packed),
           (function, grid, grid_y, grid_z, block, block_y, block_z, shared, stream, arguments, packed)) {
  // In a buffer there is one parameter, in these tests.
  void* only = packed ? packed[1] : nullptr;
  if (!arguments) arguments = &only;
  return submit(stream, [&](gpu::Stream queue) {
    return backend()->launch(reinterpret_cast<gpu::Kernel>(function), grid, block, arguments, queue);
  });
}

// ---- Kernels of the program itself ---------------------------------------------------------------------

namespace {

struct ProgramKernel {
  const gpu::CodeImage* code;
  std::string name;
};
auto& program_kernels = *new std::map<const void*, ProgramKernel>;

}  // namespace

const void** hostile::register_binary(const fairlead::device::program::hip::Binary* binary) {
  return reinterpret_cast<const void**>(new gpu::CodeImage(code_in(binary->image)));
}
void hostile::register_function(const void** module, const void* function, char*, const char* name, unsigned,
                                void*, void*, void*, void*, int*) {
  program_kernels[function] = {reinterpret_cast<const gpu::CodeImage*>(module), plain_name(name)};
}
void hostile::unregister_binary(const void** module) {
  const auto* code = reinterpret_cast<const gpu::CodeImage*>(module);
  std::erase_if(program_kernels, [code](const auto& entry) { return entry.second.code == code; });
  delete code;
}

namespace {

int launch(const void* function, unsigned grid, unsigned block, void** arguments, HipAbi::Stream stream) {
  const ProgramKernel& its = program_kernels.at(function);
  gpu::Kernel kernel = nullptr;
  auto mode = gpu::CaptureMode::relaxed;  // HIP has loaded the code before
  backend()->exchange_capture_mode(&mode);
  const Error found = backend()->find_kernel(device(), its.code, 1, its.name.c_str(), &kernel);
  backend()->exchange_capture_mode(&mode);
  if (found != Error::none) return remember(found);
  return submit(stream,
                [&](gpu::Stream queue) { return backend()->launch(kernel, grid, block, arguments, queue); });
}

}  // namespace

DISPATCHED(hipLaunchKernel,
           (const void* function, Dim3 grid, Dim3 block, void** arguments, [[maybe_unused]] size_t shared,
            HipAbi::Stream stream),
           (function, grid, block, arguments, shared, stream)) {
  return launch(function, grid.x, block.x, arguments, stream);
}
DISPATCHED(hipExtLaunchKernel,
           (const void* function, Dim3 grid, Dim3 block, void** arguments, [[maybe_unused]] size_t shared,
            HipAbi::Stream stream, HipAbi::Event start, HipAbi::Event stop, [[maybe_unused]] int flags),
           (function, grid, block, arguments, shared, stream, start, stop, flags)) {
  int code = start ? hipEventRecord_itself(start, stream) : result::success;
  if (!code) code = launch(function, grid.x, block.x, arguments, stream);
  return code || !stop ? code : hipEventRecord_itself(stop, stream);
}
