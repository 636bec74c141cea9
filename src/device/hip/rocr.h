// SPDX-License-Identifier: Apache-2.0
//
// Which memory is virtual memory (hipMemCreate, hipMemMap, the pools of hipMallocAsync)? HIP does not tell,
// and before ROCm 7.13 or so hipIpcGetMemHandle() made a handle of such memory that looked well: a peer that
// opens it may bring down the kernel driver. ROCr, on which HIP is built, tells.

#pragma once

#include <cstdint>
#include <mutex>

#include "device/driver/abi.h"

namespace fairlead::device {

class Rocr {
 public:
  // The ROCr that this libamdhip64 uses. It is looked for at the first question, when HIP is initialised:
  // some releases open it only then.
  void belong_to(void* hip_library) { hip_library_ = hip_library; }

  // What starts here. Ordinary memory is what hipIpcGetMemHandle() makes a handle of; what is neither, or
  // cannot be told, as what another process shared, must come to no function that exports.
  enum class Kind : uint8_t { ordinary, virtual_memory, other };
  Kind kind_of(const void* start);

 private:
  void bind();

  // The beginning of hsa_amd_pointer_info_t, and room for what later versions append. ROCr writes as many
  // bytes as `size` says.
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
