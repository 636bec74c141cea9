// SPDX-License-Identifier: Apache-2.0

#include "mpi/check/call_site.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace fairlead::mpi {
namespace {

struct Object {
  const void* base = nullptr;
  uintptr_t load_bias = 0;
  const char* file = "";
  const char* symbol = nullptr;
  uintptr_t symbol_address = 0;
};

// Finds the loaded file that contains this code. There may be none: code may be generated at run time.
bool find_object(uintptr_t address, Object* object) {
  Dl_info info;
  link_map* map = nullptr;
  if (!dladdr1(reinterpret_cast<void*>(address), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP))
    return false;
  const char* slash = std::strrchr(info.dli_fname, '/');
  *object = {info.dli_fbase, map->l_addr, slash ? slash + 1 : info.dli_fname, info.dli_sname,
             reinterpret_cast<uintptr_t>(info.dli_saddr)};
  return true;
}

// Returns "program+0x1234", which addr2line -e program 0x1234 translates to a source line; if the name of the
// function is known, "function+0x12 (library.so+0x1234)".
std::string describe(uintptr_t address, const Object& object) {
  char text[512];
  auto offset = [&](uintptr_t from) { return static_cast<unsigned long>(address - from); };
  if (object.symbol)
    std::snprintf(text, sizeof text, "%s+0x%lx (%s+0x%lx)", object.symbol, offset(object.symbol_address),
                  object.file, offset(object.load_bias));
  else
    std::snprintf(text, sizeof text, "%s+0x%lx", object.file, offset(object.load_bias));
  return text;
}

// What lies between the program and the end of the stack: Fairlead, the libraries of GPUs, and in Fortran
// programs libmpifort or libmpichfort.
bool is_below_program(const Object& object) {
  constexpr const char* libraries[] = {"libfairlead", "libmpi", "libcuda", "libcupti", "libamdhip64"};
  return std::any_of(std::begin(libraries), std::end(libraries), [&](const char* library) {
    return std::strncmp(object.file, library, std::strlen(library)) == 0;
  });
}

CallSite first_in_program(void* const* frames, int depth) {
  CallSite site;
  for (int i = 0; i < depth; ++i) {
    // The frame contains the return address, which may belong to the next line or the next function.
    uintptr_t address = reinterpret_cast<uintptr_t>(frames[i]) - 1;
    Object object;
    bool found = find_object(address, &object);
    if (found && is_below_program(object)) {
      // The last such frame is the function that the program called. Fairlead's other functions have no
      // dynamic symbol.
      if (object.symbol && std::strncmp(object.symbol, "_Z", 2) != 0) site.function = object.symbol;
      continue;
    }
    site.address = address;
    if (found) {
      site.place = describe(address, object);
    } else {
      char text[32];
      std::snprintf(text, sizeof text, "0x%lx", static_cast<unsigned long>(address));
      site.place = text;
    }
    break;
  }
  return site;
}

}  // namespace

CallSite find_call_site() {
  void* frames[64];
  return first_in_program(frames, backtrace(frames, 64));
}

CallSite call_site_of(const device::program::Frames& frames) {
  return first_in_program(frames.at, frames.depth);
}

}  // namespace fairlead::mpi
