// SPDX-License-Identifier: Apache-2.0

#include "device/hip/rocr.h"

#include "base/log.h"
#include "device/loaded_library.h"

namespace fairlead::device {

// dlsym() on a library also searches the libraries it was linked with. Later releases of HIP open ROCr with
// dlopen() instead.
void Rocr::bind() {
  void* library = hip_library_;
  if (!pointer_info_.bind(library)) {
    const auto loaded = loaded_libraries("libhsa-runtime64", pointer_info_.symbol);
    library = loaded.empty() ? nullptr : loaded.front().handle;
    if (!library || !pointer_info_.bind(library)) {
      log_line(LogLevel::warn,
               "device memory is not shared between processes: this process has no libhsa-runtime64.so, "
               "which tells what memory may be; messages are staged");
      return;
    }
  }
  // If ROCr has no functions for virtual memory, no such memory exists.
  if (!retain_.bind(library) || !release_.bind(library)) retain_.pointer = nullptr;
}

// Since its interface version 1.12, ROCr has a type for virtual memory. Earlier versions report the ordinary
// type for it, and a different function distinguishes them.
Rocr::Kind Rocr::kind_of(const void* start) {
  std::call_once(bound_, [this] { bind(); });
  PointerInfo info{};
  info.size = sizeof info;
  if (!pointer_info_ || pointer_info_(start, &info, nullptr, nullptr, nullptr) != driver_result::success)
    return Kind::other;
  if (info.type != allocated) return info.type == virtual_memory ? Kind::virtual_memory : Kind::other;
  uint64_t handle = 0;
  if (!retain_ || retain_(&handle, const_cast<void*>(start)) != driver_result::success) return Kind::ordinary;
  release_(handle);
  return Kind::virtual_memory;
}

}  // namespace fairlead::device
