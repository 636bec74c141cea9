// SPDX-License-Identifier: Apache-2.0
//
// The ROCm provider: the runtime contract over libamdhip64.so, opened at run time. Only what HIP does in its
// own way is here: the current device, pointer attributes, the large BAR. The rest is driver_runtime.h.

#include <dirent.h>
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/options.h"
#include "device/driver_runtime.h"
#include "device/hip_abi.h"

namespace fairlead::device {
namespace {

constexpr const char* driver_file = "/dev/kfd";

// Has this process opened the GPU driver? ROCm does when it is initialised, not when its library is loaded.
bool driver_file_is_open() {
  struct stat driver;
  if (stat(driver_file, &driver) != 0) return false;
  DIR* folder = opendir("/proc/self/fd");
  if (!folder) return true;  // cannot be told: then asking HIP is the safe answer
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

class Hip final : public DriverRuntime<HipAbi> {
 public:
  // `translated`: this libamdhip64 works over something else than AMD's kernel driver.
  Hip(const HipAbi& api, HipAbi::MemoryTypes types, bool translated)
      : DriverRuntime(api), types_(types), translated_(translated) {}

  const char* name() const override { return "rocm"; }

  // HIP has no question that it answers without initialising itself, so the process is asked whether it
  // has the driver's file open. Initialisation takes tens of milliseconds; looking at most once in 5 ms
  // therefore cannot miss the first pointer that it hands out.
  bool in_use() override {
    if (in_use_.load(std::memory_order_relaxed)) return true;
    if (!translated_) {
      timespec time;
      clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
      int64_t now = time.tv_sec * 1000 + time.tv_nsec / 1000000;
      if (now - looked_ms_.load(std::memory_order_relaxed) < 5) return false;
      looked_ms_.store(now, std::memory_order_relaxed);
      if (!driver_file_is_open()) return false;
    }
    in_use_.store(true, std::memory_order_relaxed);
    return true;
  }

  Error initialize() override {
    Error error = DriverRuntime::initialize();
    if (error == Error::none) in_use_.store(true, std::memory_order_relaxed);
    return error;
  }

  // ROCm gives a process that initialised it all it ever needs on every visible device.
  bool has_context(int device) override { return in_use() && check_device(device) == Error::none; }

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

  // With a large BAR, device memory is mapped for the CPU at its own address. Stores pass a cache of the GPU
  // (HDP) that HIP gives no way to flush, so that they are not known to be ordered.
  void* cpu_mapping(const void* address, size_t) override {
    Allocation allocation;
    if (query(address, &allocation) != Error::none || allocation.kind != MemoryKind::device) return nullptr;
    int large_bar = 0;
    if (check_device(allocation.device) != Error::none ||
        call(api_.device_attribute, &large_bar, int{HipAbi::device_is_large_bar},
             handle_of(allocation.device)) != Error::none) {
      return nullptr;
    }
    return large_bar ? const_cast<void*>(address) : nullptr;
  }

  // ROCr makes a handle of the address and the process, where it shares memory by dma-buf.
  bool ipc_handles_tell_memory() const override { return false; }

 protected:
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
    // Versions differ in whether an unknown address is an error; unregistered memory has no device address.
    if (result == driver_result::invalid_value) return forgive();
    if (result != driver_result::success) return outcome(api_.pointer_attributes.symbol, result);

    if (attributes.is_managed || attributes.type == HipAbi::memory_managed) {
      found->kind = MemoryKind::managed;
    } else if (attributes.type == types_.device) {
      found->kind = MemoryKind::device;
    } else if (attributes.type == types_.host && (attributes.device_pointer || attributes.host_pointer)) {
      found->kind = MemoryKind::pinned;
    } else {
      return Error::none;
    }
    found->device = attributes.device;
    found->exportable = found->kind == MemoryKind::device;
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
    return Error::none;
  }

  Error enable_peer_of_current(int peer) override {
    int result = api_.enable_peer(peer, 0);
    if (result == driver_result::peer_access_already_enabled) return forgive();
    return outcome(api_.enable_peer.symbol, result);
  }

  Error copy_on(void* to, const void* from, size_t bytes, HipAbi::Stream stream) override {
    return call(api_.copy, to, from, bytes, int{HipAbi::copy_default}, stream);
  }

  Error copy_2d_on(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                   size_t height, HipAbi::Stream stream) override {
    return call(api_.copy_2d, to, to_pitch, from, from_pitch, width, height, int{HipAbi::copy_default},
                stream);
  }

  // The only accepted flag, hipIpcMemLazyEnablePeerAccess, was 0 before it became 1.
  Error open_ipc(const HipAbi::IpcMemory& memory, void** mapped) override {
    int result = api_.ipc_open(mapped, memory, 1);
    if (result == driver_result::invalid_value) {
      forget_result();
      result = api_.ipc_open(mapped, memory, 0);
    }
    return outcome(api_.ipc_open.symbol, result);
  }

  // ROCm 7.1 changed it from a pointer to the value, which is CUDA's way.
  void* file_argument(int* file) override {
    return version() < 70100000 ? file : DriverRuntime::file_argument(file);
  }

  // There is no stable way to ask for a device's architecture, so its loader decides.
  int image_rank(int, const CodeImage& image) override {
    bool amd = std::strncmp(image.target, "gfx", 3) == 0;
    return amd != translated_ ? 1 : 0;
  }

  void describe(int result, const char** name, const char** text) override {
    *name = api_.error_name(result);
    *text = api_.error_string(result);
  }

  // HIP keeps a thread's last error for the application to find; ours are not its business.
  void forget_result() override { (void)api_.take_last_error(); }

 private:
  const HipAbi::MemoryTypes types_;
  const bool translated_;
  std::atomic<bool> in_use_ = false;
  std::atomic<int64_t> looked_ms_ = 0;
};

// The one that the application has loaded, if it has, since several versions may be installed.
void* open_library() {
  constexpr const char* files[] = {"libamdhip64.so", "libamdhip64.so.6", "libamdhip64.so.7",
                                   "libamdhip64.so.5"};
  for (int mode : {RTLD_NOLOAD | RTLD_NOW, RTLD_NOW | RTLD_LOCAL}) {
    for (const char* file : files) {
      if (void* library = dlopen(file, mode)) return library;
    }
  }
  return nullptr;
}

}  // namespace

Runtime* make_hip(const char** why_not) {
  static char reason[256];
  *why_not = reason;
  // Opening the library costs tens of milliseconds, so without AMD's driver it is not even looked for,
  // unless it was asked for by name: then it may be a layer over another driver.
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
  void* library = open_library();
  if (!library) {
    std::snprintf(reason, sizeof reason, "%s", dlerror());
    return nullptr;
  }
  HipAbi api;
  if (const char* missing = api.bind(library)) {
    std::snprintf(reason, sizeof reason, "libamdhip64.so has no %s: ROCm is older than 5.0", missing);
    return nullptr;
  }
  if (translated) {
    int count = 0;
    int result = api.device_count(&count);
    if (result != driver_result::success || count == 0) {
      std::snprintf(reason, sizeof reason, "there is no %s, and hipGetDeviceCount found no device (%s)",
                    driver_file, api.error_string(result));
      return nullptr;
    }
  }
  bool rocm_6 = dlsym(library, HipAbi::rocm_6_symbol) != nullptr;
  if (!rocm_6) api.memory_create.pointer = nullptr, api.memory_retain.pointer = nullptr;
  return new Hip(api, rocm_6 ? HipAbi::rocm_6_types : HipAbi::rocm_5_types, translated);
}

}  // namespace fairlead::device
