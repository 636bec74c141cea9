// SPDX-License-Identifier: Apache-2.0
//
// The part of the HIP runtime's binary interface that Fairlead uses, in our own words, so that no ROCm is
// needed to build. Valid for ROCm 5, 6 and 7: what changed between them is avoided (hipDeviceProp_t) or
// told apart here (hipMemoryType).

#pragma once

#include <cstring>

#include "device/driver/abi.h"

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

  // ROCm 6 renumbered hipMemoryType. The same release introduced the symbol below, which tells them apart;
  // what follows from the number of a release is in hip_releases.h.
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

  // Memory that is portable only is coarse-grained on AMD GPUs: what a kernel stores there may be seen when
  // it has ended, and what the CPU stores when the next one begins. Flags are polled before that.
  static constexpr unsigned pinned_coherent = 0x40000000;
  static constexpr unsigned pinned_flags = driver_flag::pinned_portable | pinned_coherent;
  // Four for each priority by default (GPU_MAX_HW_QUEUES); what waits in one holds up all streams of it.
  static constexpr bool streams_share_queues = true;
  // ROCr has the number of a GPU from its driver; those without one are all called XX.
  static constexpr bool uuids_repeat = true;
  static bool is_placeholder(const Uuid& uuid) {
    return uuid.bytes[0] == 0 || std::strncmp(uuid.bytes, "XX", 3) == 0;
  }

  static Address to_driver(const void* address) { return const_cast<void*>(address); }

#define FAIRLEAD_DRIVER_FUNCTION(member, name, ...) DriverFunction<__VA_ARGS__> member{#name};
#define FAIRLEAD_DRIVER_OPTIONAL FAIRLEAD_DRIVER_FUNCTION
#include "device/hip/functions.def"
#undef FAIRLEAD_DRIVER_FUNCTION
#undef FAIRLEAD_DRIVER_OPTIONAL

  // Null when every function that is not optional was found, else the symbol that is missing.
  const char* bind(void* library) {
#define FAIRLEAD_DRIVER_FUNCTION(member, name, ...) \
  if (!member.bind(library)) return member.symbol;
#define FAIRLEAD_DRIVER_OPTIONAL(member, name, ...) member.bind(library);
#include "device/hip/functions.def"
#undef FAIRLEAD_DRIVER_FUNCTION
#undef FAIRLEAD_DRIVER_OPTIONAL
    return nullptr;
  }
};

}  // namespace fairlead::device
