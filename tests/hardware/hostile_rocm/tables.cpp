// SPDX-License-Identifier: Apache-2.0
//
// The tables through which the hostile ROCm calls its functions, shown to profilers as libamdhip64 does: each
// before the first call through it, to rocprofiler_register_library_api_table().

#include "shim.h"

namespace program = fairlead::device::program;

extern "C" int rocprofiler_register_library_api_table(const char* name, uint32_t (*import)(),
                                                      uint32_t version, void** tables, uint64_t count,
                                                      uint64_t* id);

namespace hostile {
namespace {

template <size_t most>
struct Table {
  size_t size = 0;
  void* functions[most] = {};

  void show([[maybe_unused]] const char* name, size_t count) {
    size = sizeof size + count * sizeof(void*);
    [[maybe_unused]] void* tables[] = {this};
    [[maybe_unused]] uint64_t id = 0;
    [[maybe_unused]] constexpr uint32_t version = 60200;
#if FAIRLEAD_HOSTILE_MAJOR >= 6
    rocprofiler_register_library_api_table(
        name, [] { return version; }, version, tables, 1, &id);
#endif
  }
};
constinit Table<517> runtime;
constinit Table<9> compiler;

auto& shown_compiler() {
  static const bool shown = [] {
    compiler.functions[program::hip::compiler::register_binary] = reinterpret_cast<void*>(register_binary);
    compiler.functions[program::hip::compiler::register_function] =
        reinterpret_cast<void*>(register_function);
    compiler.functions[program::hip::compiler::unregister_binary] =
        reinterpret_cast<void*>(unregister_binary);
    compiler.show("hip_compiler", std::size(compiler.functions));
    return true;
  }();
  (void)shown;
  return compiler.functions;
}

}  // namespace

Entry::Entry(Place place, void* function) {
  runtime.functions[place] = function;
}

void* dispatched(Place place) {
  static const bool shown = (runtime.show("hip", behaviour.functions_shown), true);
  (void)shown;
  return runtime.functions[place];
}

}  // namespace hostile

using namespace hostile;

SHIM const void** __hipRegisterFatBinary(const program::hip::Binary* binary) {
  return reinterpret_cast<decltype(&register_binary)>(
      shown_compiler()[program::hip::compiler::register_binary])(binary);
}
SHIM void __hipRegisterFunction(const void** module, const void* function, char* device_function,
                                const char* name, unsigned limit, void* a, void* b, void* c, void* d,
                                int* e) {
  reinterpret_cast<program::hip::RegisterFunction>(
      shown_compiler()[program::hip::compiler::register_function])(module, function, device_function, name,
                                                                   limit, a, b, c, d, e);
}
SHIM void __hipUnregisterFatBinary(const void** module) {
  reinterpret_cast<decltype(&unregister_binary)>(shown_compiler()[program::hip::compiler::unregister_binary])(
      module);
}
