// SPDX-License-Identifier: Apache-2.0
//
// The C functions of fairlead/device.h, implemented over required_runtime(), and the table of kernels in
// which fairlead_device_launch() looks up names. All work that a thread submits to a device without naming a
// stream goes through one stream per device. Therefore copies see what earlier launches wrote, as on the
// default stream of CUDA and HIP.

#include <cstring>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "device/context.h"
#include "device/program/work.h"
#include "fairlead/device.h"
#include "fairlead/kernel.h"

namespace {

using namespace fairlead::device;

// Never destroyed: programs use it in destructors of static objects, when variables of the thread are gone.
thread_local std::string& error_words = *new std::string("no error");

int report(Error error, std::string words) {
  error_words = std::move(words);
  return static_cast<int>(error);
}

int report(Error error) {
  static_assert(static_cast<int>(Error::not_ready) == FAIRLEAD_DEVICE_NOT_READY);
  if (error == Error::none || error == Error::not_ready) return static_cast<int>(error);
  const char* text = runtime()->error_text();
  return report(error, *text ? text : to_string(error));
}

int no_provider() {
  return report(Error::not_initialized,
                "there is no GPU provider (FAIRLEAD_DEVICE is none, or is unavailable)");
}

Error current_device(int* device) {
  return runtime()->current_device(device);
}

// Streams are known by the program's own handles, by which it may use them, too. Those of default streams are
// not unique.
program::StreamKey key_of(Stream stream) {
  const void* native = runtime()->native(stream);
  return {nullptr, reinterpret_cast<uintptr_t>(native) > 2 ? native : stream};
}

// What succeeded is told for FAIRLEAD_CHECK=streams.
template <class Report>
int tell(int result, Report report) {
  if (result == FAIRLEAD_DEVICE_SUCCESS && program::seen()) report();
  return result;
}

std::mutex stream_mutex;
auto& streams = *new std::map<int, std::pair<Stream, Context>>;

Error stream_of(int device, Stream* stream) {
  std::lock_guard lock(stream_mutex);
  if (auto found = streams.find(device); found != streams.end() && !found->second.second.is_gone()) {
    *stream = found->second.first;
    return Error::none;
  }
  const Context context(device);
  Error error = whole_runtime()->create_stream(device, stream, StreamKind::application);
  if (error == Error::none) streams[device] = {*stream, context};
  return error;
}

// Returns the stream of the calling thread's current device.
Error current_stream(int* device, Stream* stream) {
  Error error = current_device(device);
  return error == Error::none ? stream_of(*device, stream) : error;
}

int owner_of(const void* address) {
  Allocation allocation;
  bool known = runtime()->query(address, &allocation) == Error::none;
  return known && allocation.kind == MemoryKind::device ? allocation.device : -1;
}

// Submits work to that stream and waits for it. Pool and virtual memory belong to one device. If the current
// device cannot access the memory in question, a device that owns some of it executes the work.
template <class Work>
int run_now(std::initializer_list<const void*> memory, Work work) {
  if (!required_runtime()) return no_provider();
  int device;
  Stream stream;
  Error error = current_stream(&device, &stream);
  if (error != Error::none) return report(error);
  error = work(stream);
  for (const void* address : memory) {
    if (error != Error::invalid_value) break;
    int owner = owner_of(address);
    if (owner < 0 || owner == device) continue;
    whole_runtime()->synchronize_stream(stream);  // work submitted earlier completes first
    error = stream_of(owner, &stream);
    if (error == Error::none) error = work(stream);
  }
  if (error == Error::none) error = whole_runtime()->synchronize_stream(stream);
  return tell(report(error), [=] { program::host_waited(key_of(stream)); });
}

template <class Allocate>
int allocate(void** address, size_t bytes, Allocate work) {
  if (!required_runtime()) return no_provider();
  if (!address) return report(Error::invalid_value, "the address of a pointer is needed, not null");
  if (!bytes) {
    *address = nullptr;
    return FAIRLEAD_DEVICE_SUCCESS;
  }
  return report(work());
}

using CodeImages = std::vector<CodeImage>;

struct KernelEntry {
  const CodeImages* images;
  std::map<int, std::pair<Kernel, Context>> loaded;  // by device
};

struct KernelTable {
  std::mutex mutex;
  // One entry per kernel source, so that a provider loads the source once for all its kernels.
  std::map<const fairlead_code_image*, CodeImages> sources;
  std::map<std::string, KernelEntry> entries;
};

// Initialisers of other objects fill this table in any order: first use creates it, nothing destroys it.
KernelTable& kernel_table() {
  static auto* table = new KernelTable;
  return *table;
}

// Returns whether the build contains code for this kind of GPU. Distinguishes a kernel that does not exist
// from one that was not compiled for this GPU.
bool built_for(const CodeImages& images, const std::string& provider) {
  for (const CodeImage& image : images) {
    if (provider == "cuda" && (!strcmp(image.target, "ptx") || !strncmp(image.target, "sm_", 3))) return true;
    if (provider == "rocm" && !strncmp(image.target, "gfx", 3)) return true;
    if (provider == "sim" && !strcmp(image.target, "cpu")) return true;
  }
  return false;
}

int find_kernel(const char* name, int device, Kernel* kernel) {
  KernelTable& table = kernel_table();
  std::lock_guard lock(table.mutex);
  auto entry = table.entries.find(name ? name : "");
  if (entry == table.entries.end())
    return report(Error::not_found, std::string("kernel ") + (name ? name : "(null)") +
                                        " is not in this program; add its source with "
                                        "fairlead_add_device_code() in CMake");
  auto& [images, loaded] = entry->second;
  if (auto known = loaded.find(device); known != loaded.end() && !known->second.second.is_gone()) {
    *kernel = known->second.first;
    return FAIRLEAD_DEVICE_SUCCESS;
  }
  const Context context(device);
  Error error = whole_runtime()->find_kernel(device, images->data(), images->size(), name, kernel);
  if (error == Error::none) loaded[device] = {*kernel, context};
  std::string provider = runtime()->name();
  if (error == Error::none || built_for(*images, provider)) return report(error);
  return report(Error::not_found, std::string("kernel ") + name + " was built without device code for " +
                                      provider + "; build with clang");
}

// What these functions have made on a device that they have reset. The provider has yet to notice.
void forget(int device) {
  {
    std::lock_guard lock(stream_mutex);
    streams.erase(device);
  }
  KernelTable& table = kernel_table();
  std::lock_guard lock(table.mutex);
  for (auto& [name, entry] : table.entries) entry.loaded.erase(device);
}

// What the kernel of this name may access, as its form for the simulated GPU declares it.
program::Work work_of(const char* name, void** arguments) {
  program::Work work{.name = std::string("kernel ") + name, .touched = {}};
  KernelTable& table = kernel_table();
  std::lock_guard lock(table.mutex);
  for (const CodeImage& image : *table.entries.find(name)->second.images) {
    if (strcmp(image.target, "cpu") != 0) continue;
    const auto* kernel = *reinterpret_cast<const fairlead_cpu_kernel* const*>(image.bytes);
    while (kernel && strcmp(kernel->name, name) != 0) kernel = kernel->next;
    for (unsigned i = 0; kernel && i < kernel->parameter_count; ++i) {
      const bool reads = i < 32 && (kernel->reads() >> i & 1);
      for (unsigned n = 0; n < kernel->parameters[i].pointers; ++n)
        work.touched.push_back({static_cast<const uintptr_t*>(arguments[i])[n], 0,
                                reads ? program::Access::reads : program::Access::unknown});
    }
  }
  return work;
}

int launch(const char* name, int device, unsigned grid, unsigned block, void** arguments, Stream stream) {
  Kernel kernel;
  if (int error = find_kernel(name, device, &kernel)) return error;
  return tell(report(runtime()->launch(kernel, grid, block, arguments, stream)),
              [=] { program::submitted(key_of(stream), work_of(name, arguments)); });
}

// Handles of the C interface are those of the contract.
Stream handle_of(fairlead_device_stream* stream) {
  return reinterpret_cast<Stream>(stream);
}
Event handle_of(fairlead_device_event* event) {
  return reinterpret_cast<Event>(event);
}
Graph handle_of(fairlead_device_graph* graph) {
  return reinterpret_cast<Graph>(graph);
}

template <class Work>
int with_runtime(Work work) {
  return required_runtime() ? report(work(*whole_runtime())) : no_provider();
}

// Passes the current device to the work, which makes a handle of the contract.
template <class Handle, class Result, class Work>
int make_handle(Result** result, Work work) {
  return with_runtime([&](Runtime& gpu) {
    int device = 0;
    Handle made = nullptr;
    Error error = current_device(&device);
    if (error == Error::none) error = work(gpu, device, &made);
    if (error == Error::none) *result = reinterpret_cast<Result*>(made);
    return error;
  });
}

// Returns an empty record for a device that does not exist. The result is valid until the thread's next call.
const DeviceInfo& info_of(int device) {
  thread_local DeviceInfo info;
  if (!required_runtime() || runtime()->device_info(device, &info) != Error::none) info = {};
  return info;
}

}  // namespace

extern "C" {

const char* fairlead_device_provider(void) {
  return required_runtime() ? runtime()->name() : "none";
}

const char* fairlead_device_error_text(void) {
  return error_words.c_str();
}

int fairlead_device_count(void) {
  int count = 0;
  return required_runtime() && runtime()->device_count(&count) == Error::none ? count : 0;
}

int fairlead_device_set(int device) {
  return required_runtime() ? report(runtime()->set_current_device(device)) : no_provider();
}

int fairlead_device_get(int* device) {
  return required_runtime() ? report(current_device(device)) : no_provider();
}

int fairlead_device_reset(void) {
  return tell(with_runtime([](Runtime& gpu) {
                int device = 0;
                Error error = current_device(&device);
                if (error == Error::none) error = gpu.reset(device);
                if (error == Error::none) forget(device);
                return error;
              }),
              [] { program::devices_reset(); });
}

const char* fairlead_device_name(int device) {
  return info_of(device).name;
}

const char* fairlead_device_pci(int device) {
  return info_of(device).pci;
}

int fairlead_device_allocate(void** address, size_t bytes, enum fairlead_device_memory kind) {
  return allocate(address, bytes, [=] {
    int device;
    if (Error error = current_device(&device); error != Error::none) return error;
    switch (kind) {
      case FAIRLEAD_MEMORY_DEVICE:
        return whole_runtime()->allocate(device, bytes, address);
      case FAIRLEAD_MEMORY_PINNED:
        return whole_runtime()->allocate_pinned(bytes, address);
      case FAIRLEAD_MEMORY_MANAGED:
        return whole_runtime()->allocate_managed(device, bytes, address);
      case FAIRLEAD_MEMORY_POOL:
        return whole_runtime()->allocate_from_pool(device, bytes, address);
      case FAIRLEAD_MEMORY_VIRTUAL:
        return whole_runtime()->allocate_virtual(device, bytes, address);
    }
    return Error::invalid_value;
  });
}

int fairlead_device_malloc(void** address, size_t bytes) {
  return fairlead_device_allocate(address, bytes, FAIRLEAD_MEMORY_DEVICE);
}

int fairlead_device_malloc_managed(void** address, size_t bytes) {
  return fairlead_device_allocate(address, bytes, FAIRLEAD_MEMORY_MANAGED);
}

int fairlead_device_free(void* address) {
  if (!address) return FAIRLEAD_DEVICE_SUCCESS;
  if (!required_runtime()) return no_provider();
  Allocation ended;
  if (program::seen()) (void)runtime()->query(address, &ended);
  // The analyzer takes the member for free(3). What is told is a number that nobody reads from.
  // NOLINTNEXTLINE(clang-analyzer-unix.Malloc)
  return tell(report(whole_runtime()->free(address)), [&] { program::freed(address, ended.size); });
}

int fairlead_device_malloc_host(void** address, size_t bytes) {
  return fairlead_device_allocate(address, bytes, FAIRLEAD_MEMORY_PINNED);
}

int fairlead_device_free_host(void* address) {
  if (!address) return FAIRLEAD_DEVICE_SUCCESS;
  return required_runtime() ? report(whole_runtime()->free_pinned(address)) : no_provider();
}

int fairlead_device_copy(void* to, const void* from, size_t bytes) {
  return run_now({to, from}, [=](Stream stream) { return runtime()->copy(to, from, bytes, stream); });
}

int fairlead_device_fill(void* to, int byte, size_t bytes) {
  return run_now({to}, [=](Stream stream) { return runtime()->fill(to, byte, bytes, stream); });
}

int fairlead_device_synchronize(void) {
  if (!required_runtime()) return no_provider();
  int device;
  Error error = current_device(&device);
  return tell(report(error != Error::none ? error : whole_runtime()->synchronize(device)),
              [] { program::host_waited_for_context(nullptr); });
}

int fairlead_device_launch(const char* kernel, unsigned grid, unsigned block, void** arguments) {
  if (!required_runtime()) return no_provider();
  int device;
  Stream stream;
  if (Error error = current_stream(&device, &stream); error != Error::none) return report(error);
  return launch(kernel, device, grid, block, arguments, stream);
}

int fairlead_device_stream_create(fairlead_device_stream** stream) {
  return make_handle<Stream>(stream, [](Runtime& gpu, int device, Stream* made) {
    return gpu.create_stream(device, made, StreamKind::application);
  });
}

int fairlead_device_stream_adopt(fairlead_device_stream** stream, void* native) {
  return make_handle<Stream>(stream, [=](Runtime& gpu, int device, Stream* made) {
    return gpu.adopt_stream(native, made, &device);
  });
}

void* fairlead_device_stream_native(fairlead_device_stream* stream) {
  return required_runtime() ? runtime()->native(handle_of(stream)) : nullptr;
}

int fairlead_device_stream_destroy(fairlead_device_stream* stream) {
  const program::StreamKey key = program::seen() ? key_of(handle_of(stream)) : program::StreamKey();
  return tell(with_runtime([=](Runtime& gpu) { return gpu.destroy_stream(handle_of(stream)); }),
              [=] { program::stream_ended(key); });
}

int fairlead_device_stream_synchronize(fairlead_device_stream* stream) {
  return tell(with_runtime([=](Runtime& gpu) { return gpu.synchronize_stream(handle_of(stream)); }),
              [=] { program::host_waited(key_of(handle_of(stream))); });
}

int fairlead_device_stream_query(fairlead_device_stream* stream) {
  return tell(with_runtime([=](Runtime& gpu) { return gpu.query_stream(handle_of(stream)); }),
              [=] { program::host_waited(key_of(handle_of(stream))); });
}

int fairlead_device_copy_on(fairlead_device_stream* stream, void* to, const void* from, size_t bytes) {
  return tell(with_runtime([=](Runtime& gpu) { return gpu.copy(to, from, bytes, handle_of(stream)); }),
              [=] { program::submitted(key_of(handle_of(stream)), program::copy(to, from, bytes)); });
}

int fairlead_device_fill_on(fairlead_device_stream* stream, void* to, int byte, size_t bytes) {
  return tell(with_runtime([=](Runtime& gpu) { return gpu.fill(to, byte, bytes, handle_of(stream)); }),
              [=] { program::submitted(key_of(handle_of(stream)), program::fill(to, bytes)); });
}

int fairlead_device_launch_on(fairlead_device_stream* stream, const char* kernel, unsigned grid,
                              unsigned block, void** arguments) {
  if (!required_runtime()) return no_provider();
  int device;
  if (Error error = current_device(&device); error != Error::none) return report(error);
  return launch(kernel, device, grid, block, arguments, handle_of(stream));
}

int fairlead_device_call_on(fairlead_device_stream* stream, void (*function)(void*), void* argument) {
  return tell(
      with_runtime([=](Runtime& gpu) { return gpu.call_host(handle_of(stream), function, argument); }),
      [=] { program::submitted(key_of(handle_of(stream)), program::host_function()); });
}

int fairlead_device_event_create(fairlead_device_event** event) {
  return make_handle<Event>(
      event, [](Runtime& gpu, int device, Event* made) { return gpu.create_event(device, made); });
}

int fairlead_device_event_destroy(fairlead_device_event* event) {
  return tell(with_runtime([=](Runtime& gpu) { return gpu.destroy_event(handle_of(event)); }),
              [=] { program::event_ended(event); });
}

int fairlead_device_event_record(fairlead_device_event* event, fairlead_device_stream* stream) {
  return tell(
      with_runtime([=](Runtime& gpu) { return gpu.record_event(handle_of(event), handle_of(stream)); }),
      [=] { program::recorded(event, key_of(handle_of(stream))); });
}

int fairlead_device_event_query(fairlead_device_event* event) {
  return tell(with_runtime([=](Runtime& gpu) { return gpu.query_event(handle_of(event)); }),
              [=] { program::host_waited_for_event(event); });
}

int fairlead_device_event_wait(fairlead_device_event* event, fairlead_device_stream* stream) {
  return tell(with_runtime([=](Runtime& gpu) { return gpu.wait_event(handle_of(stream), handle_of(event)); }),
              [=] { program::stream_waits(key_of(handle_of(stream)), event); });
}

int fairlead_device_capture_begin(fairlead_device_stream* stream) {
  return tell(with_runtime([=](Runtime& gpu) { return gpu.begin_capture(handle_of(stream)); }),
              [=] { program::capture_began(key_of(handle_of(stream))); });
}

int fairlead_device_capture_end(fairlead_device_stream* stream, fairlead_device_graph** graph) {
  const int result = make_handle<Graph>(
      graph, [=](Runtime& gpu, int, Graph* made) { return gpu.end_capture(handle_of(stream), made); });
  // The capture ends in any case.
  if (program::seen())
    program::capture_ended(key_of(handle_of(stream)), result == FAIRLEAD_DEVICE_SUCCESS ? *graph : nullptr);
  return result;
}

int fairlead_device_graph_launch(fairlead_device_graph* graph, fairlead_device_stream* stream) {
  return tell(
      with_runtime([=](Runtime& gpu) { return gpu.launch_graph(handle_of(graph), handle_of(stream)); }),
      [=] { program::graph_launched(graph, key_of(handle_of(stream))); });
}

int fairlead_device_graph_destroy(fairlead_device_graph* graph) {
  return tell(with_runtime([=](Runtime& gpu) { return gpu.destroy_graph(handle_of(graph)); }),
              [=] { program::graph_ended(graph); });
}

void fairlead_device_add_kernel(const char* name, const fairlead_code_image* images, unsigned long count) {
  KernelTable& table = kernel_table();
  std::lock_guard lock(table.mutex);
  auto [source, added] = table.sources.try_emplace(images);
  for (unsigned long i = 0; added && i < count; ++i)
    source->second.push_back({images[i].target, images[i].bytes, images[i].size});
  table.entries.try_emplace(name, KernelEntry{&source->second, {}});
}

}  // extern "C"
