// SPDX-License-Identifier: Apache-2.0
//
// What ROCr, the runtime below HIP, knows about memory and HIP does not tell:
// - Which memory is virtual memory (hipMemCreate, hipMemMap, the pools of hipMallocAsync). Before about ROCm
//   7.13 hipIpcGetMemHandle() returned a seemingly valid handle for such memory: a peer that opens it may
//   crash the kernel driver.
// - Memory that ROCr's own functions allocated, as runtimes of OpenMP offload call them.
// - Which GPU owns memory of another process, and whether this process sees that GPU.
// Thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "device/cuda_hip/abi.h"

namespace fairlead::device {

class Rocr {
 public:
  // Has the process loaded it?
  static bool is_loaded();

  // Sets the libamdhip64 whose ROCr to use; otherwise that of the process. The search for ROCr is deferred
  // until the first query, when HIP is initialised: some releases open it only then.
  void belong_to(void* hip_library) { hip_library_ = hip_library; }

  // hipIpcGetMemHandle() supports `ordinary` memory. `other` is neither ordinary nor virtual, for example
  // memory that another process shared; callers must not pass it to any export function.
  enum class Kind : uint8_t { unknown, ordinary, virtual_memory, other };
  struct Memory {
    Kind kind = Kind::unknown;
    const void* base = nullptr;
    size_t bytes = 0;
    uint64_t owner = 0;  // ROCr's handle of a processor or GPU; 0: a GPU that this process does not see
  };
  // Returns the memory at this address. Its kind is valid for the start of the memory only.
  Memory find(const void* address);
  bool is_cpu(uint64_t owner);
  // Returns the PCI address, "0000:c1:00.0".
  std::string pci_of(uint64_t owner);

 private:
  void bind();

  // The beginning of hsa_amd_pointer_info_t, with space for members that later versions append. ROCr writes
  // at most `size` bytes.
  struct PointerInfo {
    uint32_t size;
    int type;
    void *base, *host_base;
    size_t bytes;
    void* user_data;
    uint64_t owner;
    char rest[80];
  };
  // hsa_amd_pointer_type_t
  static constexpr int unknown = 0, allocated = 1, virtual_memory = 6;
  // hsa_agent_info_t, hsa_amd_agent_info_t, and hsa_device_type_t
  static constexpr int device_type = 17, bus_device_function = 0xA006, pci_domain = 0xA00F;
  static constexpr uint32_t is_processor = 0;

  DriverFunction<int(const void*, PointerInfo*, void*, void*, void*)> pointer_info_{"hsa_amd_pointer_info"};
  DriverFunction<int(uint64_t*, void*)> retain_{"hsa_amd_vmem_retain_alloc_handle"};
  DriverFunction<int(uint64_t)> release_{"hsa_amd_vmem_handle_release"};
  DriverFunction<int(uint64_t, int, void*)> agent_info_{"hsa_agent_get_info"};

  void* hip_library_ = nullptr;
  std::once_flag bound_;
};

}  // namespace fairlead::device
