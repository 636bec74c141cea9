// SPDX-License-Identifier: Apache-2.0

#include "kernels/kernel_run.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "base/library_thread.h"
#include "base/log.h"
#include "base/system/processor.h"
#include "device/blocking_driver_calls.h"
#include "device/context.h"
#include "device/pinned_buffer.h"
#include "kernels/meet.h"
#include "observe/ranges.h"
#include "observe/recorder.h"
#include "observe/trace.h"

namespace fairlead::kernels {

using device::Error;

namespace {

// A launch behind so many others may wait in the driver for room in the queue of the stream
// (docs/design/driver-calls.md).
constexpr uint64_t most_in_queue = 512;
// The stream is queried only now and then, in case the kernel died.
constexpr unsigned polls_between_questions = 4096;
constexpr uint64_t bytes_per_block = 16 << 10, most_blocks = 32;
// For the kernel that moves bytes between layouts; its blocks wait for memory most of the time.
constexpr unsigned blocks_per_multiprocessor = 8;

}  // namespace

// The state that the kernels of one device share.
struct KernelContext {
  int device = -1;
  device::Context context;
  unsigned move_blocks = 1;  // number of blocks that fill the device
  device::Stream stream = nullptr;
  device::PinnedBuffer flag;     // each kernel stores its number, in their order; behind it are other words
  std::vector<uint64_t*> words;  // of these, those that nobody has
  uint32_t* counter = nullptr;   // on the device, zero when no kernel runs
  uint64_t last_number = 0;
  uint64_t launched = 0, ended = 0;  // kernels, of which those that have ended are known late
  uint64_t over_at = 0;              // end of the last kernel, for the trace
  Attempt created = Attempt::later;  // this context

  uint64_t* end_flag() const { return reinterpret_cast<uint64_t*>(flag.data()); }
};

namespace {

std::mutex mutex;  // protects all contexts
auto& contexts = *new std::map<int, KernelContext>;

// Enough for the counter and for what the first kernel copies.
constexpr size_t counter_bytes = 4 * sizeof(uint32_t);
constexpr size_t flag_words = 256;
static_assert(flag_words * sizeof(uint64_t) >= counter_bytes);

Attempt make(KernelContext& context, int device) {
  context.device = device;
  context.context = device::Context(device);
  if (!context.flag.still_pinned())
    if (const Attempt made = device::PinnedBuffer::make(flag_words * sizeof(uint64_t), &context.flag, device);
        made != Attempt::made)
      return made;
  const device::BlockingDriverCalls calls;
  if (!calls.may_allocate()) return Attempt::later;
  device::Runtime& runtime = *calls;
  void* counter = nullptr;
  device::DeviceInfo info;
  if (runtime.device_info(device, &info) == Error::none)
    context.move_blocks =
        static_cast<unsigned>(std::max(info.multiprocessors, 1)) * blocks_per_multiprocessor;
  Error error = runtime.create_stream(device, &context.stream, device::StreamKind::urgent);
  if (error == Error::none) error = runtime.allocate(device, counter_bytes, &counter);
  context.counter = static_cast<uint32_t*>(counter);
  if (error != Error::none) return Attempt::never;
  observe::name_stream(runtime.name(), runtime.native(context.stream), "Fairlead kernels");
  std::memset(context.flag.data(), 0, flag_words * sizeof(uint64_t));
  for (size_t word = flag_words - 1; word > 0; --word) context.words.push_back(context.end_flag() + word);
  // The counter is copied to, not filled: filling takes a kernel, which may find no room beside the program's
  // kernels. With ROCm a copy also takes a kernel, but in a queue of the library.
  error = runtime.copy(counter, context.flag.data(), counter_bytes, context.stream);
  if (error == Error::none) error = runtime.synchronize_stream(context.stream);
  return error == Error::none ? Attempt::made : Attempt::never;
}

KernelContext& context_of(int device) {
  std::lock_guard lock(mutex);
  KernelContext& context = contexts[device];
  if (context.context.is_gone()) {
    if (context.stream) (void)device::BlockingDriverCalls::of_what_is_gone()->destroy_stream(context.stream);
    context = KernelContext();
  }
  if (context.created == Attempt::later) context.created = make(context, device);
  return context;
}

// Few enough blocks to leave most of the GPU to others, many enough for the links.
unsigned blocks_for(uint64_t bytes) {
  return static_cast<unsigned>(
      std::clamp<uint64_t>((bytes + bytes_per_block - 1) / bytes_per_block, 1, most_blocks));
}

}  // namespace

bool copies_run_on(int device) {
  return device >= 0 && copies_available(device) && context_of(device).created == Attempt::made;
}

bool moves_run_on(int device) {
  return device >= 0 && moves_available(device) && context_of(device).created == Attempt::made;
}

bool swaps_run_on(int device) {
  return device >= 0 && swap_available(device) && context_of(device).created == Attempt::made;
}

bool meetings_run_on(int device) {
  return device >= 0 && meet_available(device) && context_of(device).created == Attempt::made;
}

bool reductions_run_on(int device, ReduceOp op, Element element) {
  return device >= 0 && reduce_available(device, op, element) && context_of(device).created == Attempt::made;
}

bool kernels_run_on(int device) {
  return device >= 0 && context_of(device).created == Attempt::made;
}

uint64_t* take_word_of_kernels(int device) {
  KernelContext& context = context_of(device);
  std::lock_guard lock(mutex);
  if (context.created != Attempt::made || context.words.empty()) return nullptr;
  uint64_t* const word = context.words.back();
  context.words.pop_back();
  *word = 0;
  return word;
}

void give_back_word_of_kernels(int device, uint64_t* word) {
  KernelContext& context = context_of(device);
  std::lock_guard lock(mutex);
  if (context.created == Attempt::made) context.words.push_back(word);
}

KernelRun::~KernelRun() {
  while (poll() == Error::not_ready) relax();
}

// `launch` receives the stream and the signal that the kernel must give.
template <class Launch>
Attempt KernelRun::start(int device, Launch launch) {
  KernelContext& context = context_of(device);
  std::lock_guard lock(mutex);
  // Another thread may have seen a reset meanwhile.
  if (context.created != Attempt::made) return context.created;
  if (context.launched - context.ended >= most_in_queue) {
    if (device::runtime()->query_stream(context.stream) == Error::not_ready) return Attempt::later;
    context.ended = context.launched;
  }
  context_ = &context;
  made_in_ = context.context;
  if (!word_) signal({context.end_flag(), context.end_flag()}, ++context.last_number);
  if (observe::tracing()) since_ = observe::now();
  const Error error = launch(context.stream, Signal{context.counter, word_.for_kernels, value_, own_memory_});
  active_ = error == Error::none;
  if (!active_) {
    word_ = {};
    return error == Error::not_ready ? Attempt::later : Attempt::never;
  }
  sequence_ = ++context.launched;
  return Attempt::made;
}

Attempt KernelRun::reduce(int device, ReduceOp op, Element element, const void* const* from, int sources,
                          void* const* to, int targets, uint64_t count, void* old) {
  return start(device, [&](device::Stream stream, const Signal& signal) {
    return launch_reduce(device, stream, op, element, from, sources, to, targets, count,
                         blocks_for(count * element_bytes(element)), signal, old);
  });
}

Attempt KernelRun::copy(int device, const device::CopyItem* items, size_t count, uint64_t bytes) {
  return start(device, [&](device::Stream stream, const Signal& signal) {
    return launch_copies(device, stream, items, count, blocks_for(bytes), signal);
  });
}

Attempt KernelRun::swap(int device, void* target, const void* compare, const void* wanted, void* old,
                        unsigned bytes) {
  return start(device, [&](device::Stream stream, const Signal& signal) {
    return launch_swap(device, stream, target, compare, wanted, old, bytes, signal);
  });
}

Attempt KernelRun::meet(int device, const Meet& call, bool first) {
  return start(device, [&](device::Stream stream, const Signal& signal) {
    return launch_meet(device, stream, call, first, signal);
  });
}

Attempt KernelRun::move(int device, const LaidOutBuffer& to, uint64_t to_at, const LaidOutBuffer& from,
                        uint64_t from_at, uint64_t bytes) {
  return start(device, [&](device::Stream stream, const Signal& signal) {
    return launch_move(device, stream, to, to_at, from, from_at, bytes, context_->move_blocks, signal);
  });
}

Attempt KernelRun::launch(int device, const std::function<Error(device::Stream, const Signal&)>& launch) {
  return start(device, launch);
}

Error KernelRun::poll() {
  if (!active_) return Error::none;
  KernelContext& context = *context_;
  if (made_in_.is_gone()) {
    active_ = false;
    word_ = {};
    return Error::failed;
  }
  // In the flag later kernels store higher numbers. A caller's word is this kernel's alone.
  const bool in_flag = word_.address == context.end_flag();
  auto is_over = [this, in_flag] {
    const uint64_t seen = std::atomic_ref(*word_.address).load(std::memory_order_acquire);
    return in_flag ? seen >= value_ : seen == value_;
  };
  Error error = is_over() ? Error::none : Error::not_ready;
  if (error == Error::not_ready && ++polls_ % polls_between_questions == 0) {
    error = device::runtime()->query_stream(context.stream);
    // The stream is over, but no signal was seen: read the flag once more.
    if (error == Error::none && !is_over()) error = Error::failed;
  }
  if (error == Error::not_ready) return error;
  std::lock_guard lock(mutex);
  if (observe::tracing()) {
    uint64_t begin = std::max(since_, context.over_at);
    context.over_at = observe::now();
    int stream = observe::number_of_stream(context.device, observe::kernel_stream);
    observe::trace({observe::EventKind::kernel, stream, begin, context.over_at, 0});
  }
  context.ended = std::max(context.ended, sequence_);
  active_ = false;
  word_ = {};
  return error;
}

// The first launch in a stream makes something, too (cuda.cpp), so one kernel runs here.
void prepare_kernel_runs(int device) {
  (void)moves_run_on(device);
  if (!copies_run_on(device) || device::runtime()->query_loading(device) != Error::none) return;
  uint32_t* const unused = context_of(device).counter + 1;
  const device::CopyItem item{unused, unused, sizeof *unused};
  KernelRun run;
  std::ignore = run.copy(device, &item, 1, item.bytes);
}

void release_kernel_runs() {
  std::lock_guard lock(mutex);
  {
    const device::BlockingDriverCalls calls;
    for (auto& [device, context] : contexts) {
      if (!calls || context.context.is_gone()) continue;
      if (context.stream) calls->destroy_stream(context.stream);
      if (context.counter) calls->free(context.counter);
    }
  }
  contexts.clear();
}

namespace {

// In the order of likelihood.
constexpr std::pair<ReduceOp, Element> likely[] = {
    {ReduceOp::sum, Element::float64}, {ReduceOp::sum, Element::float32},  {ReduceOp::sum, Element::int32},
    {ReduceOp::sum, Element::int64},   {ReduceOp::max, Element::float64},  {ReduceOp::min, Element::float64},
    {ReduceOp::max, Element::float32}, {ReduceOp::sum, Element::bfloat16}, {ReduceOp::sum, Element::float16},
    {ReduceOp::max, Element::int32},
};

bool any_device_in_use(device::PromptRuntime& runtime, int* count) {
  if (!runtime.in_use() || runtime.device_count(count) != Error::none) return false;
  for (int device = 0; device < *count; ++device)
    if (runtime.has_context(device)) return true;
  return false;
}

}  // namespace

EarlyLoading::EarlyLoading() {
  int count = 0;
  if (!device::runtime() || !any_device_in_use(*device::runtime(), &count)) return;
  thread_ = start_library_thread("fairlead-loader", [this] { run(); });
}

EarlyLoading::~EarlyLoading() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

void EarlyLoading::run() {
  device::PromptRuntime& runtime = *device::runtime();
  device::BlockingDriverCalls::in_thread_of_library = true;
  int count = 0, loaded = 0;
  (void)runtime.device_count(&count);
  for (int device = 0; device < count; ++device) {
    if (!runtime.has_context(device)) continue;
    // At least the first. A device that is busy now is probably busy for longer.
    for (auto [op, element] : likely) {
      if (!reductions_run_on(device, op, element)) break;
      ++loaded;
      if (over_) break;
    }
  }
  log_line(LogLevel::info, "%d of %zu likely kernels were loaded early", loaded, std::size(likely));
}

}  // namespace fairlead::kernels
