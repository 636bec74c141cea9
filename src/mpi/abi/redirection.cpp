// SPDX-License-Identifier: Apache-2.0
//
// Three kinds of objects have references that would lead to the wrong functions.
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
// MPI_X, and so does what the tool finds by dlsym().
//
// Programs and their libraries may call PMPI_X themselves, on device memory, too. Their references become
// Fairlead's as well, but those to dlsym() do not. An MPI's libraries (for Fortran, say) and tools behind
// Fairlead keep theirs.

#include "mpi/abi/redirection.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/launched_job.h"
#include "base/log.h"
#include "base/options.h"
#include "base/system/imported_symbols.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/abi/real.h"

namespace fairlead::mpi {
namespace {

using Access = LoadedObject::Access;

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

// The function of Fairlead that a profiling name, PMPI_X or pmpi_x_, stands for in tools and programs; null
// if there is none.
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

// Returns false if the object has no reference that could lead to the host MPI.
bool redirect(const LoadedObject& object, bool is_tool) {
  bool redirected = false;
  const bool readable = object.for_each_import(Access::write, [&](const ImportedSymbol& symbol) {
    void* function = is_tool && std::strcmp(symbol.name, "dlsym") == 0
                         ? reinterpret_cast<void*>(&dlsym_of_tool)
                         : in_place_of(symbol.name);
    if (!function) return;
    *symbol.slot = function;
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

// In the loader's order, which begins with the program.
struct Object {
  const void* address;  // in it
  std::string name;     // of the program: empty

  bool is_fairlead() const { return fairlead_object().contains(address); }
  void* open() const { return dlopen(name.empty() ? nullptr : name.c_str(), RTLD_LAZY | RTLD_NOLOAD); }
};
std::vector<Object> all_objects() {
  std::vector<Object> found;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* into) {
        for (const auto* part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum; ++part)
          if (part->p_type == PT_DYNAMIC)
            static_cast<std::vector<Object>*>(into)->push_back(
                {reinterpret_cast<const void*>(object->dlpi_addr + part->p_vaddr), object->dlpi_name});
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

bool defines(const LoadedObject& object, void* handle, const char* name) {
  const void* found = loader_dlsym(handle, name);
  return object.contains(found) && is_definition(found);
}

// The function of Fairlead that this object defines as well; null if there is none.
const char* wrapped_by(const LoadedObject& object, void* handle) {
  for (const char* function : functions)
    if (defines(object, handle, function) && in_place_of(std::string("P").append(function).c_str()))
      return function;
  return nullptr;
}

// A library of an MPI, which alone defines profiling names: in C, or in Fortran, as compilers spell them.
bool is_of_an_mpi(const LoadedObject& object, void* handle) {
  constexpr const char* names[] = {"PMPI_Init",   "pmpi_init", "pmpi_init_",
                                   "pmpi_init__", "PMPI_INIT", "pmpi_init_f08_"};
  return std::any_of(std::begin(names), std::end(names),
                     [&](const char* name) { return defines(object, handle, name); });
}

bool has_profiling_names(const LoadedObject& object) {
  bool found = false;
  object.for_each_import(Access::read,
                         [&](const ImportedSymbol& symbol) { found = found || in_place_of(symbol.name); });
  return found;
}

// Does something between Fairlead and the host MPI wrap a function? It may find the host's by dlsym().
bool a_tool_stands_behind() {
  const LoadedObject host(function_of_host("PMPI_Init"));
  return std::any_of(std::begin(functions), std::end(functions), [&](const char* function) {
    void* const next = next_symbol(function);
    if (!next || host.contains(next) || !is_definition(next)) return false;
    void* const handle = dlopen(name_of_object(next), RTLD_LAZY | RTLD_NOLOAD);
    return !handle || !is_of_an_mpi(LoadedObject(next), handle);
  });
}

void redirect_tools() {
  const void* in_every_mpi = function_of_host("PMPI_Init");
  for (const Object& one : all_objects()) {
    if (one.is_fairlead()) break;
    const LoadedObject object(one.address);
    void* handle = one.open();
    const char* function = handle ? wrapped_by(object, handle) : nullptr;
    if (!function) continue;
    if (object.contains(in_every_mpi) || !redirect(object, true))
      report_bypass(function, one.address);
    else
      log_line(LogLevel::info,
               "%s wraps MPI functions and comes before Fairlead: it sees the program's calls",
               name_of_object(one.address));
  }
}

[[gnu::constructor]] void redirect_all() {
  // A library of Fairlead that the program opens for itself, or a second one, is asked by no MPI call.
  if (!fairlead_object().contains(loader_dlsym(dlopen(nullptr, RTLD_LAZY), "fairlead_info"))) return;
  keep_calls_of_host_inside();
  redirect_tools();
  redirect_program();
}

}  // namespace

void redirect_program() {
  if (!function_of_host("PMPI_Init")) return;
  std::vector<LoadedObject> libraries;
  for (const Object& one : all_objects()) {
    const LoadedObject object(one.address);
    if (one.is_fairlead() || !has_profiling_names(object)) continue;
    void* handle = one.open();
    if (!handle || is_of_an_mpi(object, handle) || wrapped_by(object, handle)) continue;
    if (one.name.empty())
      redirect(object, false);
    else
      libraries.push_back(object);
  }
  // A tool behind Fairlead is called inside calls of the host MPI, and may consist of several libraries.
  if (libraries.empty() || a_tool_stands_behind()) return;
  for (const LoadedObject& library : libraries) redirect(library, false);
}

void keep_calls_of_host_inside() {
  const LoadedObject host(function_of_host("PMPI_Init"));
  host.for_each_import(Access::write, [&](const ImportedSymbol& symbol) {
    if (std::strncmp(symbol.name, "MPI_", 4) != 0) return;
    const std::string profiling_name = std::string("P").append(symbol.name);
    if (!in_place_of(profiling_name.c_str())) return;
    void* function = function_of_host(profiling_name.c_str());
    if (host.contains(function)) *symbol.slot = function;
  });
}

}  // namespace fairlead::mpi
