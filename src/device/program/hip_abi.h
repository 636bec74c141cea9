// SPDX-License-Identifier: Apache-2.0
//
// The part of HIP's tables and of its calls that hip_tables.cpp uses, declared here so that the build needs
// no ROCm. Valid for ROCm 6.2 and later: tables only grow. tests/hardware compares it with
// <hip/hip_runtime_api.h> and <hip/amd_detail/hip_api_trace.hpp>.

#pragma once

#include <cstddef>
#include <cstdint>

#include "device/program/calls.h"

namespace fairlead::device::program::hip {

// HipDispatchTable, HipCompilerDispatchTable
struct Table {
  size_t size;  // in bytes, with itself
  void* functions[1];
};
inline constexpr size_t get_device = 102;
namespace compiler {
inline constexpr size_t register_binary = 2, register_function = 3, unregister_binary = 8;
}

// What __hipRegisterFatBinary gets
struct Binary {
  uint32_t magic, version;
  const void* image;
  const void* unused;
};
inline constexpr uint32_t binary_magic = 0x48495046;
using RegisterFunction = void (*)(const void** module, const void* function, char* device_function,
                                  const char* name, unsigned, void*, void*, void*, void*, int*);

struct Dim3 {
  unsigned x, y, z;
};
struct RuntimeConfig {  // hipLaunchConfig_t
  Dim3 grid, block;
  size_t shared_bytes;
  Stream stream;
  const void* attributes;
  unsigned attribute_count;
};

}  // namespace fairlead::device::program::hip
