// SPDX-License-Identifier: Apache-2.0

#include "device/program/hip_tables.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/log.h"
#include "base/options.h"
#include "device/program/calls.h"
#include "device/program/code_object.h"
#include "device/program/hip_abi.h"
#include "device/program/not_the_program.h"

namespace fairlead::device::program {
namespace hip {
namespace {

std::atomic<bool> replaced = false;

// ---- The code of kernels --------------------------------------------------------------------------------

// What HIP has loaded. The program's own code is read when a kernel of it is first launched: libraries have
// many that are never used.
struct Module {
  CodeImage unread;
  Kernels kernels;
};
struct KernelOfModule {
  const void* module = nullptr;
  std::string name;
};
struct Code {
  std::mutex mutex;
  std::map<const void*, Module> modules;
  std::map<const void*, KernelOfModule> kernels;  // by the program's function, or by handle
};
// Never destroyed: the program's destructors come later.
Code& code() {
  static auto* made = new Code;
  return *made;
}

void add_module(const void* handle, Module module) {
  std::lock_guard lock(code().mutex);
  code().modules.insert_or_assign(handle, std::move(module));
}
void loaded(const void* module, const void* image) {
  add_module(module, {{}, kernels_of(image_at(image))});
}
void loaded_file(const void* module, const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  add_module(module, {{}, kernels_of({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()})});
}
void unloaded(const void* module) {
  std::lock_guard lock(code().mutex);
  code().modules.erase(module);
  std::erase_if(code().kernels, [module](const auto& entry) { return entry.second.module == module; });
}
void found_kernel(const void* kernel, const void* module, const char* name) {
  std::lock_guard lock(code().mutex);
  code().kernels[kernel] = {module, name};
}
// Another handle of the same kernel.
void found_kernel(const void* kernel, const void* same) {
  std::lock_guard lock(code().mutex);
  if (const auto found = code().kernels.find(same); found != code().kernels.end())
    code().kernels[kernel] = KernelOfModule(found->second);
}

// Nothing accuses a kernel of which nothing is known, nor what precedes it: it may tell the host of its end.
Work unknown_kernel(const std::string& name) {
  static std::atomic<bool> said = false;
  Work work{.name = kernel_name(name.c_str()), .touched = {}, .tells_host = true};
  if (!said.exchange(true))
    log_line(LogLevel::info,
             "FAIRLEAD_CHECK=streams finds no mistake with %s, and others like it: their code is compressed "
             "(--offload-compress), or has no metadata",
             work.name.c_str());
  return work;
}

Work work_of(const void* kernel, void** values, void** packed) {
  std::string name;
  {
    Code& all = code();
    std::lock_guard lock(all.mutex);
    if (const auto found = all.kernels.find(kernel); found != all.kernels.end()) {
      name = found->second.name;
      Module& module = all.modules[found->second.module];
      if (!module.unread.empty()) module.kernels = kernels_of(std::exchange(module.unread, {}));
      if (const auto its = module.kernels.find(name); its != module.kernels.end())
        return program::kernel(name.c_str(), its->second, values, packed);
    }
  }
  return unknown_kernel(name);
}

// ---- The functions -------------------------------------------------------------------------------------

int (*current_device_of_hip)(int*) = nullptr;

// Stands for a context: HIP has one for each device.
const void* current_device() {
  int device = 0;
  if (current_device_of_hip) (void)current_device_of_hip(&device);
  return reinterpret_cast<const void*>(uintptr_t{1} + static_cast<unsigned>(device));
}

struct Call {
  bool failed;
  bool per_thread;  // "_spt": 0 means the calling thread's default stream

  StreamKey key(Stream stream) const {
    constexpr uintptr_t legacy = 1;
    const bool of_device = reinterpret_cast<uintptr_t>(stream) <= legacy;
    return key_of(stream, of_device ? current_device() : nullptr, per_thread);
  }
};

void launched(const Call& call, const void* kernel, Stream stream, void** values, void** packed = nullptr) {
  submitted(call.key(stream), work_of(kernel, values, packed));
}
void launched_between(const Call& call, const void* kernel, Stream stream, void** values, void** packed,
                      Event start, Event stop) {
  if (start) recorded(start, call.key(stream));
  launched(call, kernel, stream, values, packed);
  if (stop) recorded(stop, call.key(stream));
}
Copy2d::Side side(const void* memory, size_t pitch) {
  constexpr int unified = 4;
  return {0, 0, unified, nullptr, static_cast<const char*>(memory), nullptr, pitch};
}
void made_stream(const Call&, Stream stream, unsigned flags) {
  stream_made({nullptr, stream}, current_device(), flags & 1 ? StreamSort::alone : StreamSort::blocking);
}
void ended_memory(const void* address) {
  if (address) host_waited_for_context(nullptr);
}

#define FAIRLEAD_HIP_CALL(function, number, per_thread, action, ...)                     \
  void report_##function([[maybe_unused]] const Call& call __VA_OPT__(, ) __VA_ARGS__) { \
    action;                                                                              \
  }
#define FAIRLEAD_HIP_CODE FAIRLEAD_HIP_CALL
#include "device/program/hip_calls.def"
#undef FAIRLEAD_HIP_CALL
#undef FAIRLEAD_HIP_CODE

enum class When : uint8_t { program_succeeds, program_calls, succeeds };
// A capture ends, too, where its end is an error.
template <auto report>
constexpr When when_called = When::program_succeeds;
template <>
constexpr When when_called<report_hipStreamEndCapture> = When::program_calls;

// Reported before the call: after it, another thread may have got the same handle.
constexpr bool is_end(std::string_view function) {
  return function.ends_with("Destroy") || function.ends_with("Unload");
}

// A query that finds the work in progress does not succeed.
bool counts(When when, bool failed) {
  return when == When::succeeds ? !failed : (!failed || when == When::program_calls) && reports();
}

template <auto report, bool per_thread, When when, bool is_end, class Signature>
struct Replacement;
template <auto report, bool per_thread, When when, bool is_end, class... Arguments>
struct Replacement<report, per_thread, when, is_end, void(const Call&, Arguments...)> {
  using Function = int (*)(Arguments...);
  static constinit inline Function former = nullptr;
  static int call(Arguments... arguments) {
    if (is_end && counts(when, false)) report({false, per_thread}, arguments...);
    const int result = former(arguments...);
    if (!is_end && counts(when, result != 0)) report({result != 0, per_thread}, arguments...);
    return result;
  }
  static void put(void** entry) {
    former = reinterpret_cast<Function>(*entry);
    *entry = reinterpret_cast<void*>(call);
  }
};

struct Row {
  size_t number;
  void (*put)(void** entry);
};
constexpr Row rows[] = {
#define FAIRLEAD_HIP_ROW(function, place, is_per_thread, when)                   \
  {place, Replacement<report_##function, is_per_thread, when, is_end(#function), \
                      decltype(report_##function)>::put},
#define FAIRLEAD_HIP_CALL(function, number, per_thread, ...)                \
  FAIRLEAD_HIP_ROW(function, number, false, when_called<report_##function>) \
  FAIRLEAD_HIP_ROW(function, per_thread, true, when_called<report_##function>)
#define FAIRLEAD_HIP_CODE(function, number, ...) FAIRLEAD_HIP_ROW(function, number, false, When::succeeds)
#include "device/program/hip_calls.def"
#undef FAIRLEAD_HIP_CALL
#undef FAIRLEAD_HIP_CODE
#undef FAIRLEAD_HIP_ROW
};

// ---- What the compiler's constructors call: the program's own kernels -----------------------------------

const void** (*register_binary)(const Binary*) = nullptr;
RegisterFunction register_function = nullptr;
void (*unregister_binary)(const void**) = nullptr;

const void** binary_registered(const Binary* binary) {
  const void** module = register_binary(binary);
  if (module && binary->magic == binary_magic) add_module(module, {image_at(binary->image), {}});
  return module;
}
void function_registered(const void** module, const void* function, char* device_function, const char* name,
                         unsigned limit, void* a, void* b, void* c, void* d, int* e) {
  register_function(module, function, device_function, name, limit, a, b, c, d, e);
  found_kernel(function, module, name);
}
void binary_unregistered(const void** module) {
  unloaded(module);
  unregister_binary(module);
}

template <class Function>
void put(Table* table, size_t number, Function* former, Function function) {
  *former = reinterpret_cast<Function>(table->functions[number]);
  table->functions[number] = reinterpret_cast<void*>(function);
}

// All processes that use ROCm show tables, before the program may have set its environment: only this check
// makes them read the options.
bool is_wanted(std::string_view name) {
  const char* check = environment_variable("FAIRLEAD_CHECK");
  return (name == "hip" || name == "hip_compiler") && check &&
         (std::strstr(check, "streams") || std::strstr(check, "accesses")) && wanted();
}

void replace(std::string_view name, Table* table) {
  static std::atomic<bool> had_functions = false, had_compiler = false;
  const bool is_compiler = name == "hip_compiler";
  if ((is_compiler ? had_compiler : had_functions).exchange(true))
    return log_line(
        LogLevel::info,
        "FAIRLEAD_CHECK=streams does not see the calls of a second HIP in this process (table %s)",
        name.data());
  const size_t count = (table->size - sizeof table->size) / sizeof(void*);
  if (is_compiler && count > compiler::unregister_binary) {
    put(table, compiler::register_binary, &register_binary, binary_registered);
    put(table, compiler::register_function, &register_function, function_registered);
    put(table, compiler::unregister_binary, &unregister_binary, binary_unregistered);
  }
  if (!is_compiler && count > get_device) {
    current_device_of_hip = reinterpret_cast<int (*)(int*)>(table->functions[get_device]);
    for (const Row& row : rows)
      if (row.number > 0 && row.number < count) row.put(&table->functions[row.number]);
    replaced = true;
    sees("rocm");
  }
}

using Register = int(const char*, uint32_t (*)(), uint32_t, void**, uint64_t, uint64_t*);

// ROCm's own: behind this library in the order in which the loader looks, or known to the caller alone.
Register* next_register(const void* caller) {
  constexpr const char* name = "rocprofiler_register_library_api_table";
  if (void* next = dlsym(RTLD_NEXT, name)) return reinterpret_cast<Register*>(next);
  Dl_info info;
  link_map* object = nullptr;
  if (!dladdr1(caller, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP)) return nullptr;
  void* const library = dlopen(object->l_name, RTLD_NOLOAD | RTLD_LAZY);
  if (!library) return nullptr;
  void* const found = dlsym(library, name);
  dlclose(library);
  return reinterpret_cast<Register*>(found);
}

}  // namespace
}  // namespace hip

bool hip_is_seen() {
  return hip::replaced;
}

void expect_hip_tables(const char* (*function)(int)) {
  if (!wanted()) return;
  (void)function(0);
  if (hip_is_seen()) return;
  log_line(LogLevel::info,
           "FAIRLEAD_CHECK=streams asks only whether a device works: this HIP does not show its functions to "
           "others (ROCm does from 6.2 on, to libraries that are preloaded)");
}

extern "C" int rocprofiler_register_library_api_table(const char* name, uint32_t (*import)(),
                                                      uint32_t version, void** tables, uint64_t count,
                                                      uint64_t* id) {
  constexpr int no_tools = 1;
  hip::Register* const next = hip::next_register(__builtin_return_address(0));
  const bool others = next && next != rocprofiler_register_library_api_table;
  const int result = others ? next(name, import, version, tables, count, id) : no_tools;
  if (count > 0 && hip::is_wanted(name)) hip::replace(name, static_cast<hip::Table*>(tables[0]));
  return result;
}

}  // namespace fairlead::device::program
