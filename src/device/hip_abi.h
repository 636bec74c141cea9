// SPDX-License-Identifier: Apache-2.0
//
// The part of the HIP runtime's binary interface that Fairlead uses, in our own words, so that no ROCm is
// needed to build. Valid for ROCm 5, 6 and 7: what changed between them is avoided (hipDeviceProp_t) or
// told apart here (hipMemoryType).

#pragma once

#include "device/driver_abi.h"

namespace fairlead::device {

struct HipAbi {
  using Result = int;
  using Device = int;
  using Address = void*;
  using Stream = struct HipStream*;
  using Event = struct HipEvent*;
  using Module = struct HipModule*;
  using Function = struct HipFunction*;
  using MemoryHandle = struct HipMemoryHandle*;
  struct Launcher {};
  struct Uuid {
    char bytes[16];
  };
  struct IpcMemory {
    char bytes[64];
  };
  // The first member was called memoryType up to ROCm 5 and type since, at the same place. The room at the
  // end is for what a later version may append.
  struct PointerAttributes {
    unsigned type;
    int device;
    void* device_pointer;
    void* host_pointer;
    int is_managed;
    unsigned allocation_flags;
    char room[96];
  };

  // ROCm 6 renumbered hipMemoryType. The same release introduced the symbol below, which tells them apart.
  static constexpr const char* rocm_6_symbol = "hipGetDevicePropertiesR0600";
  struct MemoryTypes {
    unsigned host, device;
  };
  static constexpr MemoryTypes rocm_5_types{0, 1};
  static constexpr MemoryTypes rocm_6_types{1, 2};
  static constexpr unsigned memory_managed = 3;  // "unified" in ROCm 5, which marks it by is_managed as well

  static constexpr int copy_default = 4;  // the direction follows from the addresses
  static constexpr int device_multiprocessors = 63;
  static constexpr int device_is_large_bar = 10011;

  static Address to_driver(const void* address) { return const_cast<void*>(address); }

#define FAIRLEAD_DRIVER_FUNCTION(member, name, ...) DriverFunction<__VA_ARGS__> member{#name};
#define FAIRLEAD_DRIVER_OPTIONAL FAIRLEAD_DRIVER_FUNCTION
#include "device/hip_functions.def"
#undef FAIRLEAD_DRIVER_FUNCTION
#undef FAIRLEAD_DRIVER_OPTIONAL

  // Null when every function that is not optional was found, else the symbol that is missing.
  const char* bind(void* library) {
#define FAIRLEAD_DRIVER_FUNCTION(member, name, ...) \
  if (!member.bind(library)) return member.symbol;
#define FAIRLEAD_DRIVER_OPTIONAL(member, name, ...) member.bind(library);
#include "device/hip_functions.def"
#undef FAIRLEAD_DRIVER_FUNCTION
#undef FAIRLEAD_DRIVER_OPTIONAL
    return nullptr;
  }
};

}  // namespace fairlead::device
