// SPDX-License-Identifier: Apache-2.0

#include "device/hip/rocr.h"

#include "base/log.h"
#include "device/hip/kfd_topology.h"
#include "device/loaded_library.h"

namespace fairlead::device {
namespace {

std::vector<LoadedLibrary> loaded_rocr() {
  return loaded_libraries("libhsa-runtime64", "hsa_amd_pointer_info");
}

}  // namespace

bool Rocr::is_loaded() {
  return !loaded_rocr().empty();
}

// dlsym() on a library also searches the libraries it was linked with. Later releases of HIP open ROCr with
// dlopen() instead.
void Rocr::bind() {
  void* library = hip_library_;
  if (!library || !pointer_info_.bind(library)) {
    const auto loaded = loaded_rocr();
    library = loaded.empty() ? nullptr : loaded.front().handle;
    if (!library || !pointer_info_.bind(library)) {
      log_line(LogLevel::warn,
               "device memory is not shared between processes: this process has no libhsa-runtime64.so, "
               "which reports which memory may be; messages are staged");
      return;
    }
  }
  agent_info_.bind(library);
  // If ROCr has no functions for virtual memory, no such memory exists.
  if (!retain_.bind(library) || !release_.bind(library)) retain_.pointer = nullptr;
}

// Since its interface version 1.12, ROCr has a type for virtual memory. Earlier versions report the ordinary
// type for it, and a different function distinguishes them.
Rocr::Memory Rocr::find(const void* address) {
  std::call_once(bound_, [this] { bind(); });
  PointerInfo info{};
  info.size = sizeof info;
  if (!pointer_info_ || pointer_info_(address, &info, nullptr, nullptr, nullptr) != driver_result::success ||
      info.type == unknown)
    return {};
  Memory found{Kind::other, info.base, info.bytes, info.owner};
  if (info.type == virtual_memory) found.kind = Kind::virtual_memory;
  if (info.type != allocated) return found;
  found.kind = Kind::ordinary;
  uint64_t handle = 0;
  if (retain_ && retain_(&handle, const_cast<void*>(address)) == driver_result::success) {
    release_(handle);
    found.kind = Kind::virtual_memory;
  }
  return found;
}

bool Rocr::is_cpu(uint64_t owner) {
  uint32_t type = ~is_processor;
  return owner != 0 && agent_info_ && agent_info_(owner, device_type, &type) == driver_result::success &&
         type == is_processor;
}

std::string Rocr::pci_of(uint64_t owner) {
  uint32_t location = 0, domain = 0;
  if (owner == 0 || !agent_info_ ||
      agent_info_(owner, bus_device_function, &location) != driver_result::success ||
      agent_info_(owner, pci_domain, &domain) != driver_result::success)
    return {};
  return pci_address(domain, location);
}

}  // namespace fairlead::device
