// SPDX-License-Identifier: Apache-2.0
//
// The binary-level elements that the CUDA driver and the HIP runtime share: result codes, flags, and the
// lookup of functions in a library opened at run time. cuda/abi.h and hip/abi.h add the rest. tests/hardware
// compares every value here with the headers of both vendors.

#pragma once

#include <dlfcn.h>

#include <cstddef>

#include "device/program/not_the_program.h"

namespace fairlead::device {

// HIP numbers its errors like the CUDA driver. These are the ones that Fairlead distinguishes.
namespace driver_result {
inline constexpr int success = 0;
inline constexpr int invalid_value = 1;
inline constexpr int out_of_memory = 2;
inline constexpr int not_initialized = 3;
inline constexpr int deinitialized = 4;
inline constexpr int no_device = 100;
inline constexpr int invalid_device = 101;
inline constexpr int invalid_image = 200;
inline constexpr int already_mapped = 208;
inline constexpr int no_binary_for_gpu = 209;
inline constexpr int peer_access_unsupported = 217;
inline constexpr int invalid_kernel_file = 218;
inline constexpr int shared_object_failed = 303;  // older HIP: no image for this GPU
inline constexpr int invalid_handle = 400;
inline constexpr int not_found = 500;
inline constexpr int not_ready = 600;
inline constexpr int peer_access_already_enabled = 704;
inline constexpr int peer_access_not_enabled = 705;
inline constexpr int host_memory_already_registered = 712;
inline constexpr int not_permitted = 800;
inline constexpr int not_supported = 801;
inline constexpr int stream_capture_unsupported = 900;
inline constexpr int stream_capture_implicit = 906;
}  // namespace driver_result

// Flags with the same value in both.
namespace driver_flag {
inline constexpr unsigned managed_attach_global = 1;
inline constexpr unsigned pinned_portable = 1;
inline constexpr unsigned register_portable = 1;
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_disable_timing = 2;
inline constexpr unsigned write_value_default = 0;
inline constexpr unsigned wait_value_geq = 0;
inline constexpr int capture_none = 0, capture_active = 1;
inline constexpr int pointer_sync_memops = 6;
inline constexpr int pointer_buffer_id = 7;
inline constexpr int allocation_pinned = 1;  // the only type of physical memory
inline constexpr int handle_file_descriptor = 1;
inline constexpr int location_device = 1, location_host_numa = 3;
inline constexpr int access_none = 0, access_read_write = 3;
inline constexpr int granularity_minimum = 0;
}  // namespace driver_flag

// Structs of virtual memory management with the same layout in both (in HIP since ROCm 6).
struct MemoryLocation {
  int type, id;
};
struct AllocationProperties {
  int type, handle_types;
  MemoryLocation location;
  void* for_windows;
  unsigned char flags[8];
};
struct MemoryAccess {
  MemoryLocation location;
  int flags;
};

// The result of a driver function; callers that know the driver's error texts convert it to a message.
struct DriverOutcome {
  const char* symbol = nullptr;
  int result = driver_result::success;
  explicit operator bool() const { return result == driver_result::success; }
};

// One function of a driver library, with the symbol under which it was found.
template <class Signature>
struct DriverFunction;

template <class Result, class... Arguments>
struct DriverFunction<Result(Arguments...)> {
  const char* symbol;
  Result (*pointer)(Arguments...) = nullptr;

  bool bind(void* library) {
    pointer = reinterpret_cast<decltype(pointer)>(dlsym(library, symbol));
    return pointer != nullptr;
  }
  explicit operator bool() const { return pointer != nullptr; }
  Result operator()(Arguments... arguments) const {
    const program::NotTheProgram ours;
    return pointer(arguments...);
  }
};

}  // namespace fairlead::device
