// SPDX-License-Identifier: Apache-2.0
//
// The ROCm provider: the runtime contract on top of libamdhip64.so, opened at run time. This file contains
// only what is specific to HIP: the current device, pointer attributes, the large BAR. The rest is in
// cuda_hip/runtime.h.

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/environment.h"
#include "base/log.h"
#include "base/options.h"
#include "base/rate_limit.h"
#include "device/cuda_hip/ordered.h"
#include "device/guarded.h"
#include "device/hip/abi.h"
#include "device/hip/kfd_topology.h"
#include "device/hip/library.h"
#include "device/hip/releases.h"
#include "device/hip/rocr.h"
#include "device/known_ids.h"
#include "device/program/hip_tables.h"

namespace fairlead::device {
namespace {

constexpr const char* driver_file = "/dev/kfd";

// Returns whether this process has opened the GPU driver. ROCm opens it at initialisation, not when the
// library is loaded.
bool driver_file_is_open() {
  struct stat driver;
  if (stat(driver_file, &driver) != 0) return false;
  DIR* folder = opendir("/proc/self/fd");
  if (!folder) return true;  // unknown: to query HIP is the safe choice
  bool found = false;
  while (dirent* entry = readdir(folder)) {
    struct stat file;
    if (entry->d_name[0] == '.' || fstat(std::atoi(entry->d_name), &file) != 0) continue;
    if (S_ISCHR(file.st_mode) && file.st_rdev == driver.st_rdev) {
      found = true;
      break;
    }
  }
  closedir(folder);
  return found;
}

std::string lacks(const char* function) {
  return std::string("libamdhip64.so has no ") + function + ": ROCm is older than 5.0";
}

class Hip : public OrderedRuntime<HipAbi> {
 public:
  // `translated`: this libamdhip64 runs on top of a driver other than AMD's.
  explicit Hip(bool translated) : OrderedRuntime(HipAbi()), translated_(translated) {}

  // Returns null, or the symbol that this libamdhip64 lacks.
  const char* bind(void* library) {
    std::lock_guard lock(bind_mutex_);
    if (bound_) return nullptr;
    if (library == unfit_) return missing_;
    HipAbi api;
    if (const char* missing = api.bind(library)) {
      unfit_ = library;
      return missing_ = missing;
    }
    bool rocm_6 = dlsym(library, HipAbi::rocm_6_symbol) != nullptr;
    if (!rocm_6) {
      api.memory_create.pointer = nullptr;
      api.memory_retain.pointer = nullptr;
      api.memory_get_access.pointer = nullptr;
    }
    api_ = api;
    rocr_.belong_to(library);
    types_ = rocm_6 ? HipAbi::rocm_6_types : HipAbi::rocm_5_types;
    program::expect_hip_tables(api.error_string.pointer);
    bound_.store(true, std::memory_order_release);
    return nullptr;
  }
  const HipAbi& api() const { return api_; }

  const char* name() const override { return "rocm"; }

  int version() const override {
    return bound_.load(std::memory_order_acquire) ? DriverRuntime::version() : 0;
  }

  // Every HIP query initialises HIP. Therefore this function checks whether the process has the driver's file
  // open and libamdhip64 loaded. Initialisation takes tens of milliseconds, so a check at most every 5 ms
  // cannot miss the first device pointer.
  bool in_use() override {
    if (in_use_.load(std::memory_order_acquire)) return true;
    const bool found = translated_ || look_again_.found_by([this] { return look(); });
    if (found) in_use_.store(true, std::memory_order_release);
    return found;
  }

  // Called when Fairlead itself needs a GPU.
  bool open(std::string* why_not) override {
    if (bound_.load(std::memory_order_acquire)) return true;
    void* library = open_hip(why_not);
    const char* missing = library ? bind(library) : nullptr;
    if (missing) *why_not = lacks(missing);
    return library && !missing;
  }

  Error initialize() override {
    if (std::string why_not; !open(&why_not)) return refuse(Error::not_initialized, why_not.c_str());
    Error error = DriverRuntime::initialize();
    if (error == Error::none) in_use_.store(true, std::memory_order_release);
    return error;
  }

  // Memory that ROCr alone allocated makes Fairlead open HIP, which describes and copies it.
  Error query(const void* address, Allocation* allocation) override {
    if (address && !in_use() && is_memory_of_rocr_alone(address)) open_for_rocr();
    return OrderedRuntime::query(address, allocation);
  }

  Error current_device(int* device) override {
    if (Error error = initialize(); error != Error::none) return error;
    int current = 0;
    Error error = call(api_.get_device, &current);
    if (error == Error::none) *device = current;
    return error;
  }

  Error set_current_device(int device) override {
    Error error = check_device(device);
    return error == Error::none ? call(api_.set_device, device) : error;
  }

  // Destroys the streams of the device, frees its memory and that of its pools, and forgets what is mapped
  // there. Events and modules stay. With one visible device it frees page-locked memory as well.
  Error reset(int device) override {
    if (!api_.device_reset) return refuse(Error::not_supported, api_.device_reset.symbol);
    return on(device, [&] { return call(api_.device_reset); });
  }

  // HIP returns the architecture in a struct whose layout differs between releases; the kernel reports it by
  // PCI address.
  std::string architecture(int device) override {
    std::lock_guard lock(architectures_mutex_);
    auto [entry, added] = architectures_.try_emplace(device);
    if (DeviceInfo info; added && device_info(device, &info) == Error::none) {
      const std::vector<KfdGpu> gpus = read_kfd_topology(KfdDetail::gpus);
      if (const KfdGpu* gpu = kfd_gpu_at(gpus, info.pci)) entry->second = target_for_hip(*gpu);
    }
    return entry->second;
  }

  // With a large BAR, memory of hipMalloc() is mapped for the CPU at its device address; virtual memory,
  // pools and memory of other processes may not be. Stores pass through a cache of the GPU (HDP) that HIP
  // provides no function to flush, so their order is not guaranteed. On an APU such as MI300A there is no
  // such cache.
  void* cpu_mapping(const void* address, size_t bytes) override {
    Allocation allocation;
    if (query(address, &allocation) != Error::none || !allocation.ordinary ||
        !fits(allocation, address, bytes))
      return nullptr;
    return has(HipAbi::device_is_large_bar, allocation.device) ? const_cast<void*>(address) : nullptr;
  }
  bool cpu_stores_are_ordered(int device) override { return has(HipAbi::device_is_integrated, device); }

  // The query of the null handle would put a marker behind the work of all streams that synchronise with the
  // default stream, and their later work behind the marker.
  Error query_application(int device) override {
    if (Error error = check_device(device); error != Error::none) return error;
    if (!has_context(device)) return Error::none;
    if (version() < hip_release::has_legacy_stream)
      return refuse(Error::not_supported, "hipStreamQuery of hipStreamLegacy");
    return on(device, [&] { return call(api_.stream_query, HipAbi::legacy_stream()); });
  }

  Error query_device(int device) override {
    const Error error = check_device(device);
    return error == Error::none ? refuse(Error::not_supported, "HIP cannot tell whether a device is idle")
                                : error;
  }

  Error query_loading(int device) override { return check_device(device); }

  // Copies up to 16 KiB (GPU_FORCE_BLIT_COPY_SIZE), and all copies within a device, are kernels; they store
  // the trailing part of a word byte by byte.
  bool writes_whole_words() const override { return false; }

  // Leaves half of the hardware queues of this priority to kernels, which share them.
  int copy_streams() const override { return 2; }

  // With GPU_STREAMOPS_CP_WAIT, HIP waits only for memory of hipMallocSignalMemory, which processes cannot
  // share.
  bool has_word_operations(int device) override {
    const char* signals_only = environment_variable("GPU_STREAMOPS_CP_WAIT");
    return (!signals_only || std::atoi(signals_only) == 0) && OrderedRuntime::has_word_operations(device);
  }

  // When ROCr shares memory by dma-buf, it derives the handle from the address and the process.
  bool ipc_handles_tell_memory() const override { return false; }

  // A copy from a GPU to another process's memory of a GPU that this process does not see never ends, from
  // 4 KiB on (hip_release::spreads_copies). ROCr finds that GPU for memory that came by a handle.
  bool copies_may_write(const void* mapped) override {
    if (version() < hip_release::spreads_copies) return true;
    const Rocr::Memory memory = rocr_.find(mapped);
    return memory.owner != 0 || memory.kind == Rocr::Kind::virtual_memory;
  }

 protected:
  // HIP makes every visible device ready for use. It calls those active that have had memory of hipMalloc()
  // or work in a stream, also after a reset.
  bool is_active(int device) override {
    unsigned flags = 0;
    int active = 0;
    return call(api_.primary_state, handle_of(device), &flags, &active) == Error::none && active;
  }

  Error enter(int device, Entered* entered) override {
    int current = 0;
    if (Error error = call(api_.get_device, &current); error != Error::none) return error;
    if (current == device) return Error::none;
    Error error = call(api_.set_device, device);
    *entered = {error == Error::none, current};
    return error;
  }

  void leave(const Entered& entered) override { api_.set_device(entered.previous); }

  Error query_driver(const void* address, Allocation* found) override {
    HipAbi::PointerAttributes attributes{};
    int result = api_.pointer_attributes(&attributes, address);
    // Releases differ in whether an unknown address is an error. Unregistered memory has no device address.
    if (result == driver_result::invalid_value) {
      look_for_another_hip();
      return forgive();
    }
    if (result != driver_result::success) return outcome(api_.pointer_attributes.symbol, result);

    if (attributes.is_managed || attributes.type == HipAbi::memory_managed) {
      found->kind = MemoryKind::managed;
    } else if (attributes.type == types_.device) {
      found->kind = MemoryKind::device;
    } else if (attributes.type == types_.host && (attributes.device_pointer || attributes.host_pointer)) {
      found->kind = MemoryKind::pinned;
    } else {
      look_for_another_hip();
      return Error::none;
    }
    found->device = attributes.device;
    void* base = nullptr;
    size_t size = 0;
    if (call(api_.address_range, &base, &size, to_driver(address)) == Error::none) {
      found->base = reinterpret_cast<uintptr_t>(base);
      found->size = size;
    }
    uint64_t id = 0;  // the driver writes 32 or 64 bits of it
    if (call(api_.pointer_attribute, static_cast<void*>(&id), int{driver_flag::pointer_buffer_id},
             to_driver(address)) == Error::none) {
      found->id = id;
    }
    if (found->size == HipAbi::whole_address_space) return query_rocr(address, found);
    found->exportable = found->kind == MemoryKind::device;
    found->ordinary = found->exportable && is_ordinary(*found);
    if (found->kind == MemoryKind::device) consider_access(address, found);
    return Error::none;
  }

  Error enable_peer_of_current(int peer) override {
    int result = api_.enable_peer(peer, 0);
    if (result == driver_result::peer_access_already_enabled) return forgive();
    return outcome(api_.enable_peer.symbol, result);
  }

  // The kernel's table of links has all GPUs. HIP's answer for visible ones follows from it, too.
  bool has_atomics_with_hidden(int device, const DeviceInfo& peer) override {
    DeviceInfo info{};
    if (device_info(device, &info) != Error::none) return false;
    const std::vector<KfdGpu> gpus = read_kfd_topology();
    const KfdGpu *here = kfd_gpu_at(gpus, info.pci), *there = kfd_gpu_at(gpus, peer.pci);
    return here && there && here->link_to(*there).atomics && there->link_to(*here).atomics;
  }

  Error copy_on(void* to, const void* from, size_t bytes, HipAbi::Stream stream) override {
    return call(api_.copy, to, from, bytes, int{HipAbi::copy_default}, stream);
  }

  Error copy_now_on(void* to, const void* from, size_t bytes) override {
    return call(api_.copy_now, to, from, bytes, int{HipAbi::copy_default});
  }

  Error copy_2d_on(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                   size_t height, HipAbi::Stream stream) override {
    return call(api_.copy_2d, to, to_pitch, from, from_pitch, width, height, int{HipAbi::copy_default},
                stream);
  }

  // Virtual memory must never reach hipIpcGetMemHandle(). Other memory must never reach
  // hipMemRetainAllocationHandle(), which up to ROCm 7.13 terminates the program.
  Sharing sharing_of(const void* base) override {
    const Rocr::Kind kind = rocr_.find(base).kind;
    if (kind == Rocr::Kind::ordinary) return Sharing::by_handle;
    const bool by_file = kind == Rocr::Kind::virtual_memory && version() >= hip_release::retains;
    return by_file ? Sharing::by_file : Sharing::none;
  }

  // Releases before 5.6 or so cannot tell.
  Error device_of(HipAbi::Stream stream, int* device) override {
    return api_.stream_device ? call(api_.stream_device, stream, device) : current_device(device);
  }

  bool captures_words() const override { return false; }

  Error allocate_for_peers(int device, size_t bytes, void** address) override {
    if (!api_.allocate_with_flags) return refuse(Error::not_supported, api_.allocate_with_flags.symbol);
    return make_on(device,
                   [&] { return call(api_.allocate_with_flags, address, bytes, HipAbi::fine_grained); });
  }

  int most_waiting_streams(int) override {
    const char* set = environment_variable("GPU_MAX_HW_QUEUES");
    return std::max(1, (set ? std::atoi(set) : 4) - 1);
  }
  const char* setting_of_waiting_streams() const override { return "GPU_MAX_HW_QUEUES=8"; }

  // Contrary to its documentation, HIP accepts any memory that it knows, not only that of
  // hipMallocSignalMemory: for other memory it runs a kernel of one work-item that polls. That kernel
  //  - compares unsigned numbers: a word that has passed 2^32 would never seem to reach a value before that,
  //    so this function refuses values in the upper half;
  //  - needs room on the GPU, and delays all streams of its hardware queue (README.md).
  // In a stream that is being captured, HIP up to 7.14 does not capture the function, but executes it at
  // once.
  Error wait_word_on(HipAbi::Stream stream, HipAbi::Address address, uint32_t value) override {
    if (value >> 31) return refuse(Error::not_supported, "hipStreamWaitValue32 of 2^31 or more");
    if (Error error = check_not_captured(stream, api_.wait_word.symbol); error != Error::none) return error;
    constexpr unsigned every_bit = ~0u;
    return call(api_.wait_word, stream, address, value, unsigned{driver_flag::wait_value_geq}, every_bit);
  }

  // A kernel, too, behind a barrier that releases to system scope.
  Error write_word_on(HipAbi::Stream stream, HipAbi::Address address, uint32_t value) override {
    if (Error error = check_not_captured(stream, api_.write_word.symbol); error != Error::none) return error;
    return OrderedRuntime::write_word_on(stream, address, value);
  }

  Error capture_info(HipAbi::Stream stream, int* status, unsigned long long* id) override {
    return call(api_.capture_info, stream, status, id);
  }

  // The only accepted flag, hipIpcMemLazyEnablePeerAccess, was 0 in early releases and is 1 now.
  Error open_ipc(const HipAbi::IpcMemory& memory, void** mapped) override {
    int result = api_.ipc_open(mapped, memory, 1);
    if (result == driver_result::invalid_value) {
      forget_result();
      result = api_.ipc_open(mapped, memory, 0);
    }
    return outcome(api_.ipc_open.symbol, result);
  }

  void* file_argument(int* file) override {
    return version() < hip_release::imports_by_value ? file : IpcRuntime::file_argument(file);
  }

  // The GPU below a translated HIP is not AMD's. What it does not run, that HIP refuses to load.
  int image_rank(int device, const CodeImage& image) override {
    if (!translated_) return DriverRuntime::image_rank(device, image);
    return std::strncmp(image.target, "gfx", 3) != 0;
  }

  void describe(int result, const char** name, const char** text) override {
    *name = api_.error_name(result);
    *text = api_.error_string(result);
  }

  // HIP keeps a thread's last error for the application. Fairlead clears the errors of its own calls.
  void forget_result() override { (void)api_.take_last_error(); }

 private:
  void consider_access(const void* address, Allocation* found) {
    if (not_virtual_.contains(found->id)) return;
    if (access_flags(address, {driver_flag::location_device, found->device}) < 0)
      not_virtual_.add(found->id);
    else
      found->device = worker_of(address, found->device);
  }

  // HIP does not tell stream-ordered and virtual memory from the memory of hipMalloc(), and ROCr does. This
  // keeps ROCr's answer, because each message asks; an id is never used again.
  bool is_ordinary(const Allocation& allocation) {
    std::atomic<uint64_t>& known = ordinary_[allocation.id % ordinary_.size()];
    uint64_t answer = known.load(std::memory_order_relaxed);
    if (answer / 2 != allocation.id) {
      const void* base = reinterpret_cast<const void*>(allocation.base);
      answer = allocation.id * 2 + (rocr_.find(base).kind == Rocr::Kind::ordinary);
      known.store(answer, std::memory_order_relaxed);
    }
    return answer % 2 != 0;
  }

  // HIP describes all memory that only ROCr knows, such as that of OpenMP offload, as one object on device 0.
  // It copies such memory, but has no IPC handle of it.
  Error query_rocr(const void* address, Allocation* found) {
    const Rocr::Memory memory = rocr_.find(address);
    if (memory.kind == Rocr::Kind::unknown) {
      *found = {};
      return Error::none;
    }
    found->base = reinterpret_cast<uintptr_t>(memory.base);
    found->size = memory.bytes;
    if (const int owner = device_of(memory.owner); owner == processor)
      found->kind = MemoryKind::pinned;
    else if (owner != hidden)
      found->device = owner;
    return Error::none;
  }

  static constexpr int processor = -1, hidden = -2;

  // The device that ROCr calls so, or one of these.
  int device_of(uint64_t owner) {
    std::lock_guard lock(owners_mutex_);
    auto [entry, added] = owners_.try_emplace(owner, hidden);
    if (!added) return entry->second;
    if (rocr_.is_cpu(owner)) return entry->second = processor;
    const std::string pci = rocr_.pci_of(owner);
    int count = 0;
    (void)device_count(&count);
    for (int device = 0; device < count && entry->second == hidden; ++device)
      if (DeviceInfo info; device_info(device, &info) == Error::none && pci == info.pci)
        entry->second = device;
    return entry->second;
  }

  bool is_memory_of_rocr_alone(const void* address) {
    if (!rocr_alone_.load(std::memory_order_acquire)) return false;
    const Rocr::Memory memory = lone_rocr_.find(address);
    return memory.kind != Rocr::Kind::unknown && !lone_rocr_.is_cpu(memory.owner);
  }

  void open_for_rocr() {
    if (initialize() == Error::none) return;
    rocr_alone_ = false;
    if (!warned_.exchange(true))
      log_line(LogLevel::warn, "device memory of ROCr is not recognised: %s", error_text());
  }

  Error check_not_captured(HipAbi::Stream stream, const char* symbol) {
    int status = driver_flag::capture_none;
    Error error = api_.stream_capturing ? call(api_.stream_capturing, stream, &status) : Error::none;
    if (error != Error::none || status == driver_flag::capture_none) return error;
    return refuse(Error::not_supported, symbol);
  }

  // Detects a HIP runtime that the program has initialised.
  bool look() {
    if (!driver_file_is_open()) return false;
    if (bound_.load(std::memory_order_acquire)) return true;
    void* library = loaded_hip();
    if (!library) rocr_alone_.store(!warned_ && Rocr::is_loaded(), std::memory_order_release);
    const char* missing = library ? bind(library) : nullptr;
    if (missing && !warned_.exchange(true))
      log_line(LogLevel::warn, "device memory is not recognised: the program's %s", lacks(missing).c_str());
    return library && !missing;
  }

  Rocr rocr_;
  KnownIds not_virtual_;
  std::array<std::atomic<uint64_t>, 256> ordinary_{};  // an id, and whether its allocation is ordinary
  Rocr lone_rocr_;                                     // used while the process has no HIP
  std::atomic<bool> rocr_alone_ = false;               // the process uses it without HIP
  std::mutex owners_mutex_;
  std::map<uint64_t, int> owners_;  // of memory that HIP does not know, as device_of() returns them
  HipAbi::MemoryTypes types_{};
  const bool translated_;
  std::mutex bind_mutex_;
  void* unfit_ = nullptr;  // the library tried last, and the symbol it lacks
  const char* missing_ = nullptr;
  std::atomic<bool> warned_ = false;
  std::atomic<bool> bound_ = false;  // set once, never reset
  std::atomic<bool> in_use_ = false;
  RateLimit look_again_{std::chrono::milliseconds(5)};
  std::mutex architectures_mutex_;
  std::map<int, std::string> architectures_;  // by device
};

}  // namespace

Runtime* make_hip(const char** why_not) {
  static char reason[256];
  *why_not = reason;
  // Without AMD's driver this function does not look for the library, unless the user requested it by name:
  // then it may be a layer on top of another driver, and this function opens and queries it now.
  bool translated = access(driver_file, F_OK) != 0;
  if (translated && options().device != "rocm") {
    std::snprintf(reason, sizeof reason, "no AMD GPU: there is no %s", driver_file);
    return nullptr;
  }
  if (!translated && access(driver_file, R_OK | W_OK) != 0) {
    std::snprintf(reason, sizeof reason, "%s cannot be opened (%s): add this user to group render",
                  driver_file, std::strerror(errno));
    return nullptr;
  }
  auto hip = std::make_unique<Guarded<Hip>>(translated);
  std::string why_no_library;
  void* library = translated ? open_hip(&why_no_library) : loaded_hip();
  if (!library && translated) {
    std::snprintf(reason, sizeof reason, "%s", why_no_library.c_str());
    return nullptr;
  }
  if (const char* missing = library ? hip->bind(library) : nullptr) {
    std::snprintf(reason, sizeof reason, "%s", lacks(missing).c_str());
    return nullptr;
  }
  if (translated) {
    int count = 0;
    int result = hip->api().device_count(&count);
    if (result != driver_result::success || count == 0) {
      std::snprintf(reason, sizeof reason, "there is no %s, and hipGetDeviceCount found no device (%s)",
                    driver_file, hip->api().error_string(result));
      return nullptr;
    }
  }
  return hip.release();  // lives as long as the process: static destructors may still use it
}

}  // namespace fairlead::device
