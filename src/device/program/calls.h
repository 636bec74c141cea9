// SPDX-License-Identifier: Apache-2.0
//
// What the calls of CUDA's driver and those of HIP have in common, for those who listen to them (cupti.h,
// hip_tables.h).

#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <vector>

#include "device/program/work.h"

namespace fairlead::device::program {

using Stream = const void*;
using Event = const void*;

// CUDA_MEMCPY2D, hip_Memcpy2D
struct Copy2d {
  struct Side {
    size_t x, y;
    int memory_type;
    const char *host, *device;
    void* array;
    size_t pitch;
    // Unified addresses (4) are in `device`.
    const char* first() const { return (memory_type == 1 ? host : device) + y * pitch + x; }
  };
  Side from, to;
  size_t width, height;
};
Work copy_2d(const Copy2d& what);
// A copy in a stream. The call returns when it is over if it writes pageable memory; or reads some, if
// `reading_waits`.
void copied(const StreamKey& stream, Work copy, bool reading_waits);

// CUlaunchConfig, HIP_LAUNCH_CONFIG
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  Stream stream;
  const void* attributes;
  unsigned attribute_count;
};

// A stream as a call names it: 1 is the legacy default stream, 2 that of the calling thread, and 0 one of
// both.
StreamKey key_of(Stream stream, const void* context, bool null_is_of_thread);

// A parameter of a kernel, at its place in the buffer of all.
struct Parameter {
  size_t offset = 0, bytes = 0;
  Access access = Access::unknown;
};

// A launch. The values are behind `values`, an address for each, or in a buffer that `packed` names.
Work kernel(const char* symbol, const std::vector<Parameter>& parameters, void** values, void** packed);

// A kernel as reports name it.
std::string kernel_name(const char* symbol);

// What the parameters of a kernel may access, by its mangled name: "_Z6smoothPdPKdi" reads behind its second.
std::vector<Access> accesses_of(const char* symbol);

// False: the library has no such function.
template <class Function>
bool find_function(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace fairlead::device::program
