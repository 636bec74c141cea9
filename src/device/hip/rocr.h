// SPDX-License-Identifier: Apache-2.0
//
// Determines which memory is virtual memory (hipMemCreate, hipMemMap, the pools of hipMallocAsync). HIP
// offers no query for it, and before about ROCm 7.13 hipIpcGetMemHandle() returned a seemingly valid handle
// for such memory: a peer that opens it may crash the kernel driver. ROCr, the runtime below HIP, has a
// query.

#pragma once

#include <cstdint>
#include <mutex>

#include "device/cuda_hip/abi.h"

namespace fairlead::device {

class Rocr {
 public:
  // Sets the libamdhip64 whose ROCr to use. The search for ROCr is deferred until the first query, when HIP
  // is initialised: some releases open it only then.
  void belong_to(void* hip_library) { hip_library_ = hip_library; }

  // Returns the kind of memory that starts here. hipIpcGetMemHandle() supports `ordinary` memory. `other` is
  // neither ordinary nor virtual, or unidentifiable, for example memory that another process shared; callers
  // must not pass it to any export function.
  enum class Kind : uint8_t { ordinary, virtual_memory, other };
  Kind kind_of(const void* start);

 private:
  void bind();

  // The beginning of hsa_amd_pointer_info_t, with space for members that later versions append. ROCr writes
  // at most `size` bytes.
  struct PointerInfo {
    uint32_t size;
    int type;
    char rest[120];
  };
  // hsa_amd_pointer_type_t
  static constexpr int allocated = 1, virtual_memory = 6;

  DriverFunction<int(const void*, PointerInfo*, void*, void*, void*)> pointer_info_{"hsa_amd_pointer_info"};
  DriverFunction<int(uint64_t*, void*)> retain_{"hsa_amd_vmem_retain_alloc_handle"};
  DriverFunction<int(uint64_t)> release_{"hsa_amd_vmem_handle_release"};

  void* hip_library_ = nullptr;
  std::once_flag bound_;
};

}  // namespace fairlead::device
