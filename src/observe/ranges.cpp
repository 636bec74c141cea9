// SPDX-License-Identifier: Apache-2.0
//
// NVTX has no library of its own. A tool (Nsight) sets NVTX_INJECTION64_PATH to its library, which writes its
// functions into tables that the program passes. NVTX's headers contain that code for programs that include
// them; this file replaces them. Without a tool there is nothing to call. ROCTX is a library.

#include "observe/ranges.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>

#include "base/environment.h"
#include "base/log.h"

namespace fairlead::observe {

int (*detail::push_range)(const char*) = nullptr;
int (*detail::pop_range)() = nullptr;
void (*detail::name_stream)(void*, const char*) = nullptr;
const char* detail::vendor_of_streams = "";

namespace {

using Push = int (*)(const char*);
using Pop = int (*)();

void use(void* push, void* pop, const char* what) {
  if (!push || !pop) return;
  detail::pop_range = reinterpret_cast<Pop>(pop);
  detail::push_range = reinterpret_cast<Push>(push);
  log_line(LogLevel::info, "MPI calls and phases are ranges of %s", what);
}

// From NVTX 3: the number of functions of each module, and the indices of those used here.
constexpr unsigned functions_of_module[] = {0, 16, 9, 15, 7, 16, 7};
constexpr unsigned modules = 7, most_functions = 16;
constexpr int core = 1, range_push_a = 9, range_pop = 11;
constexpr int cuda = 2, name_cu_stream_a = 5;

void* slots[modules][most_functions];
void** tables[modules][most_functions];

int module_table(int module, void**** table, unsigned* size) {
  if (module <= 0 || module >= static_cast<int>(modules)) return 0;
  for (unsigned i = 0; i < functions_of_module[module]; ++i) tables[module][i] = &slots[module][i];
  if (size) *size = functions_of_module[module];
  if (table) *table = tables[module];
  return 1;
}

struct Callbacks {
  size_t size;
  int (*module_table)(int module, void**** table, unsigned* size);
};
struct Version {
  size_t size;
  uint32_t version, reserved;
  void (*tell_version)(uint32_t);
};

const void* export_table(uint32_t number) {
  static const Callbacks callbacks = {sizeof callbacks, module_table};
  static const Version version = {sizeof version, 3, 0, [](uint32_t) {}};
  constexpr uint32_t callbacks_number = 1, version_number = 3;
  if (number == callbacks_number) return &callbacks;
  return number == version_number ? &version : nullptr;
}

void open_nvtx() {
  const char* path = environment_variable("NVTX_INJECTION64_PATH");
  void* tool = path ? dlopen(path, RTLD_LAZY) : nullptr;
  if (!tool) return;
  auto begin = reinterpret_cast<int (*)(const void* (*)(uint32_t))>(dlsym(tool, "InitializeInjectionNvtx2"));
  if (!begin || !begin(export_table)) return;
  use(slots[core][range_push_a], slots[core][range_pop], "NVTX");
  detail::vendor_of_streams = "cuda";
  detail::name_stream = reinterpret_cast<void (*)(void*, const char*)>(slots[cuda][name_cu_stream_a]);
}

// Not in libroctx64 of ROCm before 6.
using NameStream = int (*)(const char* name, const void* stream);
NameStream roctx_name_stream = nullptr;

void open_roctx() {
  for (const char* name : {"librocprofiler-sdk-roctx.so.1", "librocprofiler-sdk-roctx.so.0",
                           "libroctx64.so.4", "libroctx64.so"}) {
    void* library = dlopen(name, RTLD_LAZY);
    if (!library) continue;
    roctx_name_stream = reinterpret_cast<NameStream>(dlsym(library, "roctxNameHipStream"));
    detail::vendor_of_streams = "rocm";
    if (roctx_name_stream)
      detail::name_stream = [](void* stream, const char* name) { roctx_name_stream(name, stream); };
    return use(dlsym(library, "roctxRangePushA"), dlsym(library, "roctxRangePop"), "ROCTX");
  }
}

}  // namespace

void open_ranges(const char* which) {
  const std::string wanted = which;
  if (wanted != "roctx") open_nvtx();
  if (wanted != "nvtx" && !ranges()) open_roctx();
  if (!ranges())
    log_line(LogLevel::info,
             "FAIRLEAD_RANGES=%s found no profiler: NVTX_INJECTION64_PATH names no tool, and there is no "
             "ROCTX library",
             which);
}

}  // namespace fairlead::observe
