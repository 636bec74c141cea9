// SPDX-License-Identifier: Apache-2.0
//
// The part of NVIDIA's Sanitizer API that accesses.cpp uses, declared here so that the build needs no CUDA
// toolkit. Its callbacks for the driver's functions have the numbers and the data of CUPTI's (cupti_abi.h).
// tests/hardware compares it with <sanitizer.h>.

#pragma once

#include <cstddef>

namespace fairlead::device::program::sanitizer {

inline constexpr int domain_resource = 3, domain_launch = 5, domain_graphs = 10;
inline constexpr unsigned context_ends = 4, module_loaded = 9, module_unloads = 10, launch_begin = 1,
                          node_launch_begin = 4, graph_launch_begin = 6;

// Sanitizer_ResourceContextData, Sanitizer_ResourceModuleData: their beginnings
struct OfContext {
  const void* context;
};
struct OfModule {
  const void* context;
  const void* module;
};

// Sanitizer_GraphLaunchData, Sanitizer_LaunchData: their beginnings
struct OfStream {
  const void* context;
  const void* stream;
  const void* stream_handle;
};
struct OfLaunch {
  OfStream on;
  const void* module;
  const void* function;
  const char* name;
  unsigned dimensions[9];
  unsigned long grid;
  const void* launch;
};
// Sanitizer_GraphNodeLaunchData: its beginning
struct OfNodeLaunch {
  const void* graph;
  unsigned number;
  const void* node;
  int type;
  OfLaunch kernel;
};
inline constexpr int kernel_node = 0;

// Sanitizer_InstructionId
enum Instruction : int {
  global_access = 3,
  copy_to_shared = 14,
  bulk_copy_to_shared = 30,
  bulk_copy_from_shared = 35,
  bulk_reduction_from_shared = 37
};

struct Functions {
  int (*add_patches)(const void* image, const void* context);
  int (*patch_instructions)(int instruction, const void* module, const char* patch);
  int (*patch_module)(const void* module);
  int (*set_launch_data)(const void* launch, const void* function, const void* stream, const void* data);
  int (*allocate)(const void* context, void** memory, size_t bytes);
  int (*release)(const void* context, void* memory);
  int (*to_device)(void* to, const void* from, size_t bytes, const void* stream);
  int (*to_host)(void* to, const void* from, size_t bytes, const void* stream);
  int (*fill)(void* memory, int value, size_t bytes, const void* stream);
};

}  // namespace fairlead::device::program::sanitizer
