// SPDX-License-Identifier: Apache-2.0
//
// The CUDA provider: the runtime contract on top of libcuda.so.1, opened at run time. This file contains only
// what is specific to CUDA: primary contexts, the multi-attribute pointer query, PTX. The rest is in
// cuda_hip/runtime.h.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "device/blocking_driver_calls.h"
#include "device/cuda/abi.h"
#include "device/cuda/fabric_domain.h"
#include "device/cuda/gdrcopy.h"
#include "device/cuda_hip/ordered.h"
#include "device/guarded.h"
#include "device/known_ids.h"

namespace fairlead::device {
namespace {

class Cuda : public OrderedRuntime<CudaAbi> {
 public:
  explicit Cuda(const CudaAbi& api) : OrderedRuntime(api) {}

  const char* name() const override { return "cuda"; }

  // The application may have initialised the driver through its own runtime. Until then, every call except
  // cuInit returns CUDA_ERROR_NOT_INITIALIZED immediately.
  bool in_use() override {
    if (in_use_.load(std::memory_order_relaxed)) return true;
    int type = 0;
    int result = api_.pointer_attribute(&type, CudaAbi::pointer_memory_type, to_driver(this));
    if (result == driver_result::not_initialized || result == driver_result::deinitialized) return false;
    in_use_.store(true, std::memory_order_relaxed);
    return true;
  }

  std::string architecture(int device) override {
    int major = 0, minor = 0;
    if (check_device(device) != Error::none) return {};
    api_.device_attribute(&major, CudaAbi::device_capability_major, handle_of(device));
    api_.device_attribute(&minor, CudaAbi::device_capability_minor, handle_of(device));
    return "sm_" + std::to_string(10 * major + minor);
  }

  // As in the CUDA runtime, a thread without a context is on device 0.
  Error current_device(int* device) override {
    if (Error error = initialize(); error != Error::none) return error;
    CudaAbi::Context context = nullptr;
    if (Error error = call(api_.context_get_current, &context); error != Error::none) return error;
    CudaAbi::Device current = 0;
    Error error = context ? call(api_.context_device, &current) : Error::none;
    if (error == Error::none) *device = current;
    return error;
  }

  Error keep_with_graph(Stream stream, std::shared_ptr<const void> object) override {
    if (!api_.capture_info || !api_.object_create || !api_.object_release || !api_.graph_keep)
      return refuse(Error::not_supported, api_.graph_keep.symbol);
    using Kept = std::shared_ptr<const void>;
    const auto release = [](void* kept) { delete static_cast<Kept*>(kept); };
    return with(stream, [&](StreamRecord& record) {
      int status = driver_flag::capture_none;
      unsigned long long id = 0;
      CudaAbi::Graph graph{};
      Error error = capture_info(record.handle, &status, &id, &graph);
      if (error != Error::none) return error;
      if (status != driver_flag::capture_active) return refuse(Error::invalid_value, "no capture");
      auto kept = std::make_unique<Kept>(std::move(object));
      CudaAbi::GraphObject made{};
      error = call(api_.object_create, &made, static_cast<void*>(kept.get()), +release, 1u,
                   unsigned{CudaAbi::object_ends_unseen});
      if (error != Error::none) return error;
      (void)kept.release();
      error = call(api_.graph_keep, graph, made, 1u, unsigned{CudaAbi::object_is_given});
      if (error != Error::none) api_.object_release(made, 1);
      return error;
    });
  }

  bool queries_all_streams() const override { return !!api_.context_record_event; }

  // An idle GPU reaches a new event within a few microseconds.
  Error query_device(int device) override {
    constexpr std::chrono::microseconds grace{20};
    if (!api_.context_record_event) return query_application(device);
    if (Error error = check_device(device); error != Error::none) return error;
    if (!has_context(device)) return Error::none;
    std::lock_guard lock(idle_mutex_);
    Event& event = idle_events_[device];
    if (event && is_gone(record_of(event)->made)) (void)destroy_event(std::exchange(event, nullptr));
    if (Error error = event ? Error::none : create_event(device, &event); error != Error::none) return error;
    Error error = on(device, [&] {
      // The record would end a capture that the default stream waits for. Others cannot be seen.
      if (check_no_blocking_capture() != Error::none) return Error::not_ready;
      return call(api_.context_record_event, primaries_[device].load(), record_of(event)->handle);
    });
    const auto start = std::chrono::steady_clock::now();
    while (error == Error::none) {
      error = query_event(event);
      if (error != Error::not_ready || std::chrono::steady_clock::now() - start > grace) break;
      error = Error::none;
    }
    return error;
  }

  Error fabric_domain(int device, FabricDomain* domain) override {
    DeviceInfo info{};
    if (Error error = device_info(device, &info); error != Error::none) return error;
    const std::string why_not = find_fabric_domain(info.pci, domain);
    return why_not.empty() ? Error::none : refuse(Error::not_supported, why_not.c_str());
  }

  Error fabric_export(const void* base, IpcHandle* handle) override {
    return make_on(owner(base), [&] {
      IpcHandle made{};
      Error error = outcome(virtual_.share(base, CudaAbi::handle_for_other_nodes, &made));
      if (error == Error::none) *handle = made;
      return error;
    });
  }

  Error fabric_import(int device, const IpcHandle& handle, size_t bytes, void** base) override {
    IpcHandle copy = handle;
    return make_on(device, [&] {
      return outcome(virtual_.map_received(device, CudaAbi::handle_for_other_nodes, &copy, bytes, base));
    });
  }

  void* cpu_mapping(const void* address, size_t bytes) override {
    static Gdrcopy* const gdrcopy = Gdrcopy::open();
    Allocation allocation;
    const bool coherent = is_coherent();
    if ((!gdrcopy && !coherent) || query(address, &allocation) != Error::none ||
        allocation.kind != MemoryKind::device || !fits(allocation, address, bytes))
      return nullptr;
    void* host = nullptr;
    int attribute = CudaAbi::pointer_host_pointer;
    void* value = &host;
    if (coherent &&
        api_.pointer_attributes(1, &attribute, &value, to_driver(address)) == driver_result::success && host)
      return host;
    return gdrcopy ? gdrcopy->map(allocation, address, bytes) : nullptr;
  }
  bool cpu_stores_are_ordered(int) override { return true; }

  // Virtual memory cannot have the attribute, and stream-ordered memory has it to no effect, but the context
  // can have it. All copies of the program to or from the device wait then.
  Error set_sync_memops(const void* address) override {
    Allocation memory;
    if (query(address, &memory) != Error::none || memory.device < 0)
      return OrderedRuntime::set_sync_memops(address);
    return on(memory.device, [&] {
      unsigned flags = 0;
      (void)call(api_.context_get_flags, &flags);
      if (flags & CudaAbi::context_sync_memops) return Error::none;
      if (memory.ordinary || !api_.context_set_flags) return OrderedRuntime::set_sync_memops(address);
      const Error of_all = call(api_.context_set_flags, flags | CudaAbi::context_sync_memops);
      return of_all == Error::none ? Error::not_ready : of_all;
    });
  }

  Error set_current_device(int device) override {
    CudaAbi::Context context = nullptr;
    Error error = check_device(device);
    if (error == Error::none) error = primary_context(device, &context);
    return error == Error::none ? call(api_.context_set_current, context) : error;
  }

  // As the application does it, so this provider has yet to notice. The thread stays on its device: if that
  // is this one, its next context begins at once.
  Error reset(int device) override {
    int current = -1;
    CudaAbi::Context next = nullptr;
    if (Error error = check_device(device); error != Error::none) return error;
    (void)current_device(&current);
    Error error = call(api_.primary_reset, handle_of(device));
    if (error != Error::none || current != device) return error;
    error = call(api_.primary_retain, &next, handle_of(device));
    return error == Error::none ? call(api_.context_set_current, next) : error;
  }

 protected:
  bool is_active(int device) override {
    unsigned flags = 0;
    int active = 0;
    if (api_.primary_state(handle_of(device), &flags, &active) == driver_result::success && active)
      return true;
    forget_context(device);
    return false;
  }

  bool numbers_contexts() const override { return !!api_.context_id; }
  uint64_t context_id(int device) override {
    if (!numbers_contexts()) return OrderedRuntime::context_id(device);
    unsigned long long id = 0;
    const CudaAbi::Context context = primaries_[device].load(std::memory_order_acquire);
    return context && api_.context_id(context, &id) == driver_result::success ? id : 0;
  }
  // To be retained anew; the handle may be the same.
  void forget_context(int device) override { primaries_[device] = nullptr; }

  Error enter(int device, Entered* entered) override {
    CudaAbi::Context wanted = nullptr;
    CudaAbi::Context current = nullptr;
    if (Error error = primary_context(device, &wanted); error != Error::none) return error;
    (void)api_.context_get_current(&current);  // which may have ended
    if (current == wanted) return Error::none;
    Error error = call(api_.context_push, wanted);
    entered->changed = error == Error::none;
    return error;
  }

  void leave(const Entered&) override {
    CudaAbi::Context popped = nullptr;
    api_.context_pop(&popped);
  }

  Error query_driver(const void* address, Allocation* found) override {
    unsigned type = 0, managed = 0;
    int device = -1, legacy_ipc = 0;
    unsigned long long id = 0;
    CudaAbi::Address base = 0;
    size_t size = 0;
    void* pool = nullptr;
    int attributes[] = {CudaAbi::pointer_memory_type,    CudaAbi::pointer_is_managed,
                        CudaAbi::pointer_device_ordinal, CudaAbi::pointer_legacy_ipc_capable,
                        driver_flag::pointer_buffer_id,  CudaAbi::pointer_range_start,
                        CudaAbi::pointer_range_size,     CudaAbi::pointer_mempool};
    void* values[] = {&type, &managed, &device, &legacy_ipc, &id, &base, &size, &pool};
    int result = api_.pointer_attributes(std::size(attributes), attributes, values, to_driver(address));
    // A child of fork() has no driver even if its parent had one; it has no device memory either.
    if (result == driver_result::invalid_value || result == driver_result::not_initialized)
      return Error::none;
    if (result != driver_result::success) return outcome(api_.pointer_attributes.symbol, result);

    if (managed) {
      found->kind = MemoryKind::managed;
    } else if (type == CudaAbi::memory_host) {
      found->kind = MemoryKind::pinned;
    } else if (type == CudaAbi::memory_device) {
      found->kind = MemoryKind::device;
    } else {
      return Error::none;
    }
    found->device = device;
    found->base = base;
    found->size = size;
    found->id = id;
    if (found->kind == MemoryKind::pinned) return describe_host_memory(address, found);
    found->exportable = found->ordinary = found->kind == MemoryKind::device && legacy_ipc && !pool;
    if (found->kind == MemoryKind::device && !legacy_ipc && !pool) describe_piece(address, found);
    return Error::none;
  }

  Error enable_peer_of_current(int peer) override {
    CudaAbi::Context context = nullptr;
    if (Error error = primary_context(peer, &context); error != Error::none) return error;
    int result = api_.enable_peer(context, 0);
    if (result == driver_result::peer_access_already_enabled) return forgive();
    return outcome(api_.enable_peer.symbol, result);
  }

  Error copy_on(void* to, const void* from, size_t bytes, CudaAbi::Stream stream) override {
    return call(api_.copy, to_driver(to), to_driver(from), bytes, stream);
  }

  Error copy_now_on(void* to, const void* from, size_t bytes) override {
    return call(api_.copy_now, to_driver(to), to_driver(from), bytes);
  }

  // One call instead of many: 64 copies of 1 KiB from a peer take 36 us instead of 160 us on an H200.
  Error copy_batch_on(const CopyItem* items, size_t count, CudaAbi::Stream stream) override {
    if (!api_.copy_batch) return DriverRuntime::copy_batch_on(items, count, stream);
    std::vector<CudaAbi::Address> to(count), from(count);
    std::vector<size_t> bytes(count);
    for (size_t i = 0; i < count; ++i) {
      to[i] = to_driver(items[i].to);
      from[i] = to_driver(items[i].from);
      bytes[i] = items[i].bytes;
    }
    CudaAbi::CopyAttributes attributes{};
    attributes.source_order = CudaAbi::source_order_stream;
    size_t first = 0;
    return call(api_.copy_batch, to.data(), from.data(), bytes.data(), count, &attributes, &first, size_t{1},
                stream);
  }

  Error copy_2d_on(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                   size_t height, CudaAbi::Stream stream) override {
    auto side = [](const void* address, size_t pitch) {
      return CudaAbi::Copy2d::Side{0,       0,    CudaAbi::memory_unified, nullptr, to_driver(address),
                                   nullptr, pitch};
    };
    CudaAbi::Copy2d copy{side(from, from_pitch), side(to, to_pitch), width, height};
    return call(api_.copy_2d, static_cast<const CudaAbi::Copy2d*>(&copy), stream);
  }

  // Launches through a graph, for streams on which latency matters. On an H200 the call takes 1.8 us instead
  // of 3.5 us, and the kernel's result reaches the host after 6.5 us instead of 8.5 us.
  Error launch_on(CudaAbi::Function function, unsigned grid, unsigned block, void** arguments,
                  StreamRecord& stream) override {
    CudaAbi::Launcher& launcher = stream.launcher;
    if (stream.priority != 0 && !launcher.refused) {
      CudaAbi::KernelNode node{function,  {grid, 1, 1}, {block, 1, 1}, 0,
                               arguments, nullptr,      nullptr,       nullptr};
      if ((launcher.runnable || make_graph(&launcher, node, stream.priority)) &&
          by_graph(&launcher, node, stream))
        return Error::none;
    }
    return DriverRuntime::launch_on(function, grid, block, arguments, stream);
  }

  void release(CudaAbi::Launcher* launcher) override {
    if (launcher->runnable) api_.graph_forget(launcher->runnable);
    if (launcher->graph) api_.graph_destroy(launcher->graph);
    *launcher = {};
  }

  // Drivers that do not know the attribute leave it open.
  bool processes_take_turns(int device) override { return by_mps(device) == 0; }

  // Seen on an H100 (driver 580): 8 queues, 2 under MPS, and 32 at most.
  int most_waiting_streams(int device) override {
    const char* set = environment_variable(CudaAbi::queues);
    const int connections = set ? std::atoi(set) : by_mps(device) == 1 ? 2 : 8;
    return std::max(1, connections - 1);
  }
  const char* setting_of_waiting_streams() const override { return "CUDA_DEVICE_MAX_CONNECTIONS=32"; }
  const char* setting_of_early_kernels() override {
    int mode = 0;
    const bool late = api_.loading_mode && call(api_.loading_mode, &mode) == Error::none &&
                      mode == CudaAbi::loads_at_first_launch;
    return late && !environment_variable(CudaAbi::module_loading) ? "CUDA_MODULE_LOADING=EAGER" : nullptr;
  }

  Error device_of(CudaAbi::Stream stream, int* device) override {
    CudaAbi::Context context = nullptr, primary = nullptr;
    CudaAbi::Device found = 0;
    Error error = call(api_.stream_context, stream, &context);
    if (error == Error::none) error = call(api_.context_push, context);
    if (error != Error::none) return error;
    error = call(api_.context_device, &found);
    leave({});
    if (error == Error::none) error = check_device(found);
    if (error == Error::none) error = primary_context(found, &primary);
    if (error == Error::none && context != primary)
      error = refuse(Error::not_supported, "a stream of a context that is not its device's primary one");
    if (error == Error::none) *device = found;
    return error;
  }

  // The comparison is cyclic. A wait neither occupies a multiprocessor nor delays other streams.
  Error wait_word_on(CudaAbi::Stream stream, CudaAbi::Address address, uint32_t value) override {
    return call(api_.wait_word, stream, address, value, unsigned{driver_flag::wait_value_geq});
  }

  Error access_words_on(CudaAbi::Stream stream, const WordAccess* accesses, size_t count) override {
    if (!api_.access_words || count < 2) return OrderedRuntime::access_words_on(stream, accesses, count);
    constexpr size_t at_most = 64;  // the driver takes 256
    CudaAbi::WordOperation operations[at_most] = {};
    Error error = Error::none;
    for (size_t done = 0; done < count && error == Error::none; done += at_most) {
      const size_t now = std::min(count - done, at_most);
      for (size_t i = 0; i < now; ++i) {
        const auto& [waits, word, value] = accesses[done + i];
        operations[i] = {waits ? CudaAbi::word_wait : CudaAbi::word_write,
                         device_address(word),
                         value,
                         waits ? driver_flag::wait_value_geq : driver_flag::write_value_default,
                         0,
                         0};
      }
      error = call(api_.access_words, stream, static_cast<unsigned>(now), operations, 0u);
    }
    return error;
  }

  std::optional<int> by_mps(int device) {
    int value = 0;
    const bool known = check_device(device) == Error::none &&
                       call(api_.device_attribute, &value, int{CudaAbi::device_shared_by_mps},
                            handle_of(device)) == Error::none;
    return known ? std::optional(value) : std::nullopt;
  }

  Error capture_info(CudaAbi::Stream stream, int* status, unsigned long long* id) override {
    return capture_info(stream, status, id, nullptr);
  }
  Error capture_info(CudaAbi::Stream stream, int* status, unsigned long long* id, CudaAbi::Graph* graph) {
    return call(api_.capture_info, stream, status, id, graph,
                static_cast<const CudaAbi::GraphNode**>(nullptr), static_cast<size_t*>(nullptr));
  }

  Error open_ipc(const CudaAbi::IpcMemory& memory, CudaAbi::Address* mapped) override {
    return call(api_.ipc_open, mapped, memory, unsigned{CudaAbi::ipc_lazy_peer_access});
  }

  void describe(int result, const char** name, const char** text) override {
    api_.error_name(result, name);
    api_.error_string(result, text);
  }

 private:
  static bool done(int result) { return result == driver_result::success; }

  // Launches in flight keep their original arguments when the node changes.
  bool by_graph(CudaAbi::Launcher* launcher, const CudaAbi::KernelNode& node, const StreamRecord& stream) {
    launcher->refused = !done(api_.graph_set_kernel(launcher->runnable, launcher->node, &node)) ||
                        !done(api_.graph_launch(launcher->runnable, stream.handle));
    return !launcher->refused;
  }

  bool make_graph(CudaAbi::Launcher* launcher, const CudaAbi::KernelNode& node, int priority) {
    const BlockingDriverCalls calls;
    if (!calls.may_allocate()) return false;
    const Relaxed relaxed(*this);
    CudaAbi::NodeAttribute urgent{priority};
    const bool can = api_.graph_create && api_.graph_destroy && api_.graph_add_kernel &&
                     api_.graph_set_attribute && api_.graph_instantiate && api_.graph_set_kernel &&
                     api_.graph_launch && api_.graph_forget;
    launcher->refused =
        !can || !done(api_.graph_create(&launcher->graph, 0)) ||
        !done(api_.graph_add_kernel(&launcher->node, launcher->graph, nullptr, 0, &node)) ||
        !done(api_.graph_set_attribute(launcher->node, CudaAbi::attribute_priority, &urgent)) ||
        !done(api_.graph_instantiate(&launcher->runnable, launcher->graph, 0));
    return !launcher->refused;
  }

  // Virtual memory: the pointer query describes the reserved range, but what matters is the physical memory
  // mapped at the address. Drivers before CUDA 12 do not report its identity; it cannot be shared then.
  void describe_piece(const void* address, Allocation* found) {
    CudaAbi::Address base = 0;
    size_t size = 0;
    unsigned long long id = 0;
    found->device = worker_of(address, found->device);
    if (api_.address_range(&base, &size, to_driver(address)) != driver_result::success) return;
    found->base = base;
    found->size = size;
    if (api_.pointer_attribute(&id, CudaAbi::pointer_block_id, to_driver(address)) != driver_result::success)
      return;
    found->id = id | physical_id;
    unsigned long long types = 0;
    api_.pointer_attribute(&types, CudaAbi::pointer_handle_types, to_driver(address));
    found->exportable = types & driver_flag::handle_file_descriptor;
    found->for_other_nodes = types & CudaAbi::handle_for_other_nodes;
  }

  bool let_cpu_in(const Allocation& memory, const MemoryLocation& host) {
    const Relaxed beside_captures(*this);
    const MemoryAccess access{host, driver_flag::access_read_write};
    const Error error =
        call(api_.memory_access, CudaAbi::Address{memory.base}, memory.size, &access, size_t{1});
    if (error != Error::none) log_line(LogLevel::info, "the CPU gets no access to memory: %s", error_text());
    return error == Error::none;
  }

  // Virtual memory of the host, to which the CPU may have no access. The driver copies between it and
  // ordinary host memory by the CPU, which crashes then, so the CPU gets access. Where that is refused, the
  // memory is treated as that of the device. Other page-locked memory never becomes virtual memory.
  Error describe_host_memory(const void* address, Allocation* found) {
    const uint64_t known_as =
        found->id + (uint64_t{context_number(std::max(found->device, 0))} << context_bit);
    if (page_locked_.contains(known_as)) return Error::none;
    CudaAbi::MemoryHandle memory{};
    AllocationProperties properties{};
    if (api_.memory_retain(&memory, const_cast<void*>(address)) != driver_result::success) {
      page_locked_.add(known_as);
      return Error::none;
    }
    const bool known = api_.memory_properties(&properties, memory) == driver_result::success;
    api_.memory_release(memory);
    const bool for_cpu =
        !known || access_flags(address, properties.location) == driver_flag::access_read_write;
    if (for_cpu || let_cpu_in(*found, properties.location)) return Error::none;
    const int worker = worker_of(address, -1);
    if (worker < 0) return Error::none;
    found->kind = MemoryKind::device;
    found->device = worker;
    describe_piece(address, found);
    return Error::none;
  }

  // Distinguishes ids of physical memory from ids of allocations; the driver may assign equal numbers to
  // both.
  static constexpr uint64_t physical_id = uint64_t{1} << 63;

  // May the CPU reach device memory without gdrcopy? The driver answers for each allocation.
  bool is_coherent() {
    static const bool by_host_tables = has(CudaAbi::device_by_host_tables, 0);
    return by_host_tables;
  }

  // Retained once for the life of the context. The driver counts references, so this does not disturb the
  // application's own use of the primary context.
  Error primary_context(int device, CudaAbi::Context* context) {
    *context = primaries_[device].load(std::memory_order_acquire);
    if (*context) return Error::none;
    std::lock_guard lock(context_mutex_);
    *context = primaries_[device].load(std::memory_order_relaxed);
    if (*context) return Error::none;
    Error error = call(api_.primary_retain, context, handle_of(device));
    if (error == Error::none) primaries_[device].store(*context, std::memory_order_release);
    return error;
  }

  std::atomic<bool> in_use_ = false;
  KnownIds page_locked_;
  std::mutex context_mutex_;
  std::array<std::atomic<CudaAbi::Context>, max_devices> primaries_{};
  std::mutex idle_mutex_;
  std::array<Event, max_devices> idle_events_{};
};

// Returns whether a device file of the driver exists. cuInit can take up to a second on a large node, so this
// check replaces it. A container may contain any one of the numbered files. The unnumbered names are those of
// WSL and Tegra.
bool device_file_exists() {
  auto exists = [](const char* file) { return access(file, F_OK) == 0; };
  char numbered[32];
  for (int number = 0; number < 64; ++number) {
    std::snprintf(numbered, sizeof numbered, "/dev/nvidia%d", number);
    if (exists(numbered)) return true;
  }
  return exists("/dev/dxg") || exists("/dev/nvgpu") || exists("/dev/nvhost-gpu");
}

}  // namespace

void prepare_drivers() {
  setenv(CudaAbi::module_loading, "EAGER", 0);
}

Runtime* make_cuda(const char** why_not) {
  static char reason[256];
  *why_not = reason;
  if (!device_file_exists()) {
    std::snprintf(reason, sizeof reason, "no NVIDIA GPU: there is no /dev/nvidia0 nor any other");
    return nullptr;
  }
  const char* visible = environment_variable("CUDA_VISIBLE_DEVICES");
  if (visible && (*visible == '\0' || *visible == '-')) {
    std::snprintf(reason, sizeof reason, "CUDA_VISIBLE_DEVICES=%s hides every GPU", visible);
    return nullptr;
  }
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::snprintf(reason, sizeof reason, "%s", dlerror());
    return nullptr;
  }
  CudaAbi api;
  if (const char* missing = api.bind(library)) {
    std::snprintf(reason, sizeof reason, "libcuda.so.1 has no %s: the NVIDIA driver is older than 470",
                  missing);
    return nullptr;
  }
  return new Guarded<Cuda>(api);  // lives as long as the process: static destructors may still use it
}

}  // namespace fairlead::device
