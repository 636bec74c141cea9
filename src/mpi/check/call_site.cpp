// SPDX-License-Identifier: Apache-2.0

#include "mpi/check/call_site.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "base/system/code_place.h"

namespace fairlead::mpi {
namespace {

// What lies between the program and the end of the stack: Fairlead, the libraries of GPUs, and in Fortran
// programs libmpifort or libmpichfort.
bool is_below_program(const std::string& place) {
  constexpr const char* libraries[] = {"libfairlead", "libmpi",       "libcuda",
                                       "libcupti",    "libsanitizer", "libamdhip64"};
  return std::any_of(std::begin(libraries), std::end(libraries),
                     [&](const char* library) { return place.starts_with(library); });
}

CallSite first_in_program(void* const* frames, int depth) {
  CallSite site;
  for (int i = 0; i < depth; ++i) {
    // The frame contains the return address, which may belong to the next line or the next function.
    const uintptr_t address = reinterpret_cast<uintptr_t>(frames[i]) - 1;
    const std::string place = place_of_code(address).text();
    Dl_info info{};
    (void)dladdr(reinterpret_cast<void*>(address), &info);
    const char* const symbol = info.dli_sname;
    if (is_below_program(place)) {
      // The last such frame is the function that the program called. Fairlead's other functions have no
      // dynamic symbol.
      if (symbol && std::strncmp(symbol, "_Z", 2) != 0) site.function = symbol;
      continue;
    }
    site.address = address;
    site.place = place;
    if (symbol) {
      char text[512];
      std::snprintf(text, sizeof text, "%s+0x%lx (%s)", symbol,
                    static_cast<unsigned long>(address - reinterpret_cast<uintptr_t>(info.dli_saddr)),
                    place.c_str());
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
