// SPDX-License-Identifier: Apache-2.0
//
// Two kinds of objects have references that would lead to the wrong functions.
//
// The host MPI may call its own functions by MPI_X, which is Fairlead's; what it gets by them must be its
// own.
//
// Tools (profilers, tracers, checkers) that wrap MPI functions may come before Fairlead in the loader's
// order:
//
//   program: MPI_Send -> tool: MPI_Send, PMPI_Send -> Fairlead: MPI_Send -> host MPI: MPI_Send
//
// Such a tool sees the calls of the program, and its PMPI_Send must reach Fairlead, not the host MPI.
// Fairlead does not export PMPI_Send, since the host MPI's own libraries and Fairlead itself call the host
// MPI by it. Instead, when Fairlead is loaded, each reference of the tool to PMPI_X becomes one to Fairlead's
// MPI_X, and so does what the tool finds by dlsym(). All other objects keep their references.

#include "mpi/abi/redirection.h"

#include <dlfcn.h>
#include <link.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/imported_symbols.h"
#include "base/launched_job.h"
#include "base/log.h"
#include "base/options.h"
#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {
namespace {

constexpr const char* functions[] = {
#define FAIRLEAD_FUNCTION(name) "MPI_" #name,
#include "mpi/abi/generated/function_ids.inc"
};

const char* name_of_object(const void* address) {
  Dl_info object;
  return dladdr(address, &object) && object.dli_fname ? object.dli_fname : "";
}

const LoadedObject& fairlead_object() {
  static const LoadedObject own(reinterpret_cast<void*>(&fairlead_object));
  return own;
}

// The function of Fairlead that a profiling name stands for in a tool, PMPI_X or pmpi_x_; null if there is
// none.
void* in_place_of(const char* profiling_name) {
  if (std::strncmp(profiling_name, "PMPI", 4) != 0 && std::strncmp(profiling_name, "pmpi", 4) != 0)
    return nullptr;
  static void* const own =
      dlopen(name_of_object(reinterpret_cast<void*>(&in_place_of)), RTLD_LAZY | RTLD_NOLOAD);
  void* found = own ? loader_dlsym(own, profiling_name + 1) : nullptr;
  return fairlead_object().contains(found) ? found : nullptr;
}

// The dlsym() of tools. The loader takes the object to which a call of dlsym() returns for its caller, and
// RTLD_NEXT is relative to that. So the last call has to be a jump, and return to the tool.
#if !defined(__clang__)
[[gnu::optimize("O2", "optimize-sibling-calls"), gnu::no_sanitize_address, gnu::no_sanitize_thread,
  gnu::no_sanitize_undefined]]
#endif
void* dlsym_of_tool(void* handle, const char* name) {
  if (void* function = in_place_of(name)) return function;
#if defined(__clang__)
  [[clang::musttail]]
#endif
  return dlsym(handle, name);
}

// Returns false if the tool has no reference that could lead to the host MPI.
bool redirect(const LoadedObject& tool) {
  bool redirected = false;
  const bool readable = tool.for_each_import([&](const ImportedSymbol& symbol) {
    void* function = std::strcmp(symbol.name, "dlsym") == 0 ? reinterpret_cast<void*>(&dlsym_of_tool)
                                                            : in_place_of(symbol.name);
    if (!function) return;
    *symbol.place = function;
    redirected = true;
  });
  return readable && redirected;
}

void report_bypass(const char* function, const void* address) {
  const auto job = job_from_environment();
  if (!options().enabled || (job && job->rank > 0)) return;
  const char* file = name_of_object(address);
  log_line(LogLevel::error,
           "%s is loaded before Fairlead, and its %s does not call Fairlead, so MPI calls with device memory "
           "may crash; load Fairlead first: LD_PRELOAD=\"%s %s\"",
           file, function, name_of_object(reinterpret_cast<void*>(&report_bypass)), file);
}

// The objects that come before Fairlead in the loader's order, each by an address in it and its name.
using Objects = std::vector<std::pair<const void*, std::string>>;
Objects objects_in_front() {
  Objects found;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* into) {
        for (const auto* part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum; ++part) {
          const auto* dynamic = reinterpret_cast<const void*>(object->dlpi_addr + part->p_vaddr);
          if (part->p_type != PT_DYNAMIC) continue;
          if (fairlead_object().contains(dynamic)) return 1;
          static_cast<Objects*>(into)->emplace_back(dynamic, object->dlpi_name);
        }
        return 0;
      },
      &found);
  return found;
}

// A program at a fixed address may hold the address of a function that it does not define.
bool is_definition(const void* function) {
  Dl_info object;
  const ElfW(Sym)* symbol = nullptr;
  return dladdr1(function, &object, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
                 RTLD_DL_SYMENT) &&
         symbol && symbol->st_shndx != SHN_UNDEF;
}

// The host MPI's own function: the first found may be the program's reference to it.
void* function_of_host(const char* name) {
  void* found = loader_dlsym(RTLD_DEFAULT, name);
  return found && !is_definition(found) ? next_symbol(name) : found;
}

// The function of Fairlead that this object defines as well; null if there is none.
const char* wrapped_by(const LoadedObject& object, void* handle) {
  for (const char* function : functions) {
    const void* found = loader_dlsym(handle, function);
    if (object.contains(found) && is_definition(found) &&
        in_place_of(std::string("P").append(function).c_str()))
      return function;
  }
  return nullptr;
}

[[gnu::constructor]] void redirect_all() {
  void* program = dlopen(nullptr, RTLD_LAZY);
  // A library of Fairlead that the program opens for itself, or a second one, is asked by no MPI call.
  if (!fairlead_object().contains(loader_dlsym(program, "fairlead_info"))) return;
  keep_calls_of_host_inside();
  const void* in_every_mpi = function_of_host("PMPI_Init");
  for (const auto& [address, name] : objects_in_front()) {
    const LoadedObject object(address);
    void* handle = name.empty() ? program : dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    const char* function = handle ? wrapped_by(object, handle) : nullptr;
    if (!function) continue;
    if (object.contains(in_every_mpi) || !redirect(object))
      report_bypass(function, address);
    else
      log_line(LogLevel::info,
               "%s wraps MPI functions and comes before Fairlead: it sees the program's calls",
               name_of_object(address));
  }
}

}  // namespace

void keep_calls_of_host_inside() {
  const LoadedObject host(function_of_host("PMPI_Init"));
  host.for_each_import([&](const ImportedSymbol& symbol) {
    if (std::strncmp(symbol.name, "MPI_", 4) != 0) return;
    const std::string profiling_name = std::string("P").append(symbol.name);
    if (!in_place_of(profiling_name.c_str())) return;
    void* function = function_of_host(profiling_name.c_str());
    if (host.contains(function)) *symbol.place = function;
  });
}

}  // namespace fairlead::mpi
