// SPDX-License-Identifier: Apache-2.0
//
// A librocprofiler-register.so for tests, with a profiler behind it: one that counts calls of
// hipStreamSynchronize() in hostile_rocm_profiled.

#include <cstdint>
#include <cstring>

#include "device/program/hip_abi.h"

namespace {

constexpr size_t synchronize = 346;
int (*former)(void*) = nullptr;

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int hostile_rocm_profiled = 0;

__attribute__((visibility("default"))) int rocprofiler_register_library_api_table(const char* name,
                                                                                  uint32_t (*)(), uint32_t,
                                                                                  void** tables, uint64_t,
                                                                                  uint64_t*) {
  if (std::strcmp(name, "hip") != 0) return 0;
  auto* const table = static_cast<fairlead::device::program::hip::Table*>(tables[0]);
  former = reinterpret_cast<int (*)(void*)>(table->functions[synchronize]);
  table->functions[synchronize] = reinterpret_cast<void*>(+[](void* stream) {
    ++hostile_rocm_profiled;
    return former(stream);
  });
  return 0;
}
}
