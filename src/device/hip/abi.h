// SPDX-License-Identifier: Apache-2.0
//
// The part of the HIP runtime's binary interface that Fairlead uses, declared here so that the build needs no
// ROCm. Valid for ROCm 5, 6 and 7: Fairlead avoids what changed between them (hipDeviceProp_t) or
// distinguishes it here (hipMemoryType).

#pragma once

#include <cstdint>
#include <cstring>

#include "device/cuda_hip/abi.h"

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
  using Graph = struct HipGraph*;
  using RunnableGraph = struct HipRunnableGraph*;
  struct Launcher {};
  struct Uuid {
    char bytes[16];
  };
  struct IpcMemory {
    char bytes[64];
  };
  // ROCm 5 named the first member memoryType, later releases name it type; the offset is the same. The space
  // at the end is for members that a later version may append.
  struct PointerAttributes {
    unsigned type;
    int device;
    void* device_pointer;
    void* host_pointer;
    int is_managed;
    unsigned allocation_flags;
    char room[96];
  };

  // ROCm 6 renumbered hipMemoryType. The same release introduced the symbol below, which distinguishes the
  // two. releases.h contains what depends on the release number.
  static constexpr const char* rocm_6_symbol = "hipGetDevicePropertiesR0600";
  struct MemoryTypes {
    unsigned host, device;
  };
  static constexpr MemoryTypes rocm_5_types{0, 1};
  static constexpr MemoryTypes rocm_6_types{1, 2};
  static constexpr unsigned memory_managed = 3;  // "unified" in ROCm 5, which also sets is_managed

  static constexpr int copy_default = 4;  // the addresses determine the direction
  static constexpr int device_is_integrated = 16;
  static constexpr int device_multiprocessors = 63;
  static constexpr int device_reaches_host = 65;
  static constexpr int device_is_large_bar = 10011;
  static constexpr int device_has_words = 10013;

  // On AMD GPUs, memory with only the portable flag is coarse-grained: the host may see a kernel's stores
  // only after the kernel has ended, and a kernel may see the CPU's stores only if it starts later. Fairlead
  // polls flags before that, so it needs coherent memory.
  static constexpr unsigned pinned_coherent = 0x40000000;
  static constexpr unsigned fine_grained = 1;
  static constexpr int peer_atomics = 2;
  static constexpr int handle_for_other_nodes = 0;  // there is none
  static constexpr unsigned pinned_flags = driver_flag::pinned_portable | pinned_coherent;
  // hipStreamLegacy
  static Stream legacy_stream() { return reinterpret_cast<Stream>(uintptr_t{1}); }
  // The length of the object that HIP describes for memory that only ROCr knows.
  static constexpr size_t whole_address_space = SIZE_MAX;
  // By default each priority has four hardware queues (GPU_MAX_HW_QUEUES); work that waits in one of them
  // delays all streams that share it.
  static constexpr bool streams_share_queues = true;
  // ROCr takes the UUID of a GPU from its driver; all GPUs without one report XX.
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

  // Returns null if every function that is not optional was found, else the missing symbol.
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
