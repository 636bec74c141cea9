// SPDX-License-Identifier: Apache-2.0
//
// A librocprofiler-register.so for tests, with a profiler behind it: one that counts calls of
// hipStreamSynchronize() and hipGetDevice() in hostile_rocm_profiled.

#include <cstdint>
#include <cstring>

#include "device/program/hip_abi.h"

namespace {

template <size_t place>
struct Counted {
  static inline int (*former)(void*) = nullptr;
  static int call(void* argument);
  static void replace(fairlead::device::program::hip::Table* table) {
    former = reinterpret_cast<int (*)(void*)>(table->functions[place]);
    table->functions[place] = reinterpret_cast<void*>(call);
  }
};
constexpr size_t synchronize = 346;

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int hostile_rocm_profiled = 0;

__attribute__((visibility("default"))) int rocprofiler_register_library_api_table(const char* name,
                                                                                  uint32_t (*)(), uint32_t,
                                                                                  void** tables, uint64_t,
                                                                                  uint64_t*) {
  if (std::strcmp(name, "hip") != 0) return 0;
  auto* const table = static_cast<fairlead::device::program::hip::Table*>(tables[0]);
  Counted<synchronize>::replace(table);
  Counted<fairlead::device::program::hip::get_device>::replace(table);
  return 0;
}
}

template <size_t place>
int Counted<place>::call(void* argument) {
  ++hostile_rocm_profiled;
  return former(argument);
}
