// SPDX-License-Identifier: Apache-2.0
//
// Finds the host MPI's functions. RTLD_NEXT is relative to the object that calls dlsym(), so this file must
// be linked into the interposition library itself.

#include "mpi/abi/real.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include "base/log.h"
#include "base/system/imported_symbols.h"
#include "mpi/abi/opened_mpi.h"

namespace fairlead::mpi {
namespace {

// Each string begins with the P of the profiling name, so that it serves for both names.
constexpr const char* profiling_names[] = {
#define FAIRLEAD_FUNCTION(name) "PMPI_" #name,
#include "mpi/abi/generated/function_ids.inc"
};

void* find_by_name(const char* profiling_name) {
  void* address = next_symbol(profiling_name + 1);
  if (!address) address = next_symbol(profiling_name);
  // An MPI opened by dlopen() is outside the search order of RTLD_NEXT. With RTLD_DEFAULT, the plain name
  // would find Fairlead's own function.
  if (!address && bind_opened_mpi()) address = dlsym(RTLD_DEFAULT, profiling_name);
  return address;
}

// Copies the first line of the host MPI's version string.
void describe_host(char (&text)[MPI_MAX_LIBRARY_VERSION_STRING]) {
  std::snprintf(text, sizeof text, "of unknown version");
  int length = 0;
  if (void* address = find_by_name("PMPI_Get_library_version"))
    reinterpret_cast<int (*)(char*, int*)>(address)(text, &length);
  text[std::strcspn(text, "\n")] = '\0';
  for (char* tab = text; (tab = std::strchr(tab, '\t'));) *tab = ' ';
}

}  // namespace

constinit Real real;

void* next_symbol(const char* name) {
  return loader_dlsym(RTLD_NEXT, name);
}

const char* to_string(Function function) {
  return profiling_names[static_cast<int>(function)] + 1;
}

bool available(Function function) {
  return detail::find(function) != nullptr;
}

void* detail::find(Function function) {
  const char* name = profiling_names[static_cast<int>(function)];
  void* address = find_by_name(name);
#if defined(OPEN_MPI)
  constexpr size_t prefix = sizeof "PMPI" - 1;  // quirk persistent_names
  if (!address) address = find_by_name(("PMPIX" + std::string(name + prefix)).c_str());
#endif
  return address;
}

int detail::report_missing(Function function) {
  static std::atomic<bool> reported[std::size(profiling_names)];
  if (!reported[static_cast<int>(function)].exchange(true)) {
    char host[MPI_MAX_LIBRARY_VERSION_STRING];
    describe_host(host);
    log_line(LogLevel::error,
             "%s is not in the MPI of this program (%s): it returns MPI_ERR_OTHER; use an MPI that has it",
             to_string(function), host);
  }
  return MPI_ERR_OTHER;
}

}  // namespace fairlead::mpi
