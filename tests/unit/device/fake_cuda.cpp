// SPDX-License-Identifier: Apache-2.0
//
// A libcuda.so.1 that does nothing but show a table of HIP where it is loaded.

#include <cstddef>
#include <cstdint>

extern "C" int rocprofiler_register_library_api_table(const char* name, uint32_t (*import)(),
                                                      uint32_t version, void** tables, uint64_t count,
                                                      uint64_t* id);

namespace {

struct {
  size_t size = sizeof *this;
  void* functions[200] = {};
} table;

[[gnu::constructor]] void show() {
  void* tables[] = {&table};
  rocprofiler_register_library_api_table("hip", nullptr, 60200, tables, 1, nullptr);
}

}  // namespace
