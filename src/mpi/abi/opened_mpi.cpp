// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/opened_mpi.h"

#include <dlfcn.h>
#include <link.h>

#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/system/imported_symbols.h"
#include "mpi/abi/mutex.h"
#include "mpi/abi/redirection.h"

namespace fairlead::mpi {
namespace {

// If the loader did not find a weak symbol, its place holds null, whatever the kind of relocation. The place
// of a function that the loader binds at its first call holds another value, and the loader binds it later.
bool bind_weak_symbols() {
  return LoadedObject(reinterpret_cast<void*>(&bind_weak_symbols))
      .for_each_import(LoadedObject::Access::write, [](const ImportedSymbol& symbol) {
        if (symbol.weak && *symbol.slot == nullptr) *symbol.slot = dlsym(RTLD_DEFAULT, symbol.name);
      });
}

// Makes a library global that was opened locally. It stays loaded as long as Fairlead.
bool open_to_all(void* function) {
  Dl_info library;
  return dladdr(function, &library) && library.dli_fname &&
         dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

}  // namespace

bool bind_opened_mpi() {
  static Mutex mutex;
  static bool met = false;
  std::lock_guard lock(mutex);
  if (met) return true;
  constexpr const char* in_every_mpi = "PMPI_Init";
  if (!dlsym(RTLD_DEFAULT, in_every_mpi)) {
    void* hidden = find_anywhere(in_every_mpi);
    if (!hidden || !open_to_all(hidden)) return false;
  }
  met = bind_weak_symbols();
  if (met) {
    keep_calls_of_host_inside();
    redirect_program();
  } else {
    log_line(LogLevel::error,
             "the program opened its MPI late, and this library cannot be bound to it; preload the MPI's "
             "library (libmpi.so...) behind Fairlead's");
  }
  return met;
}

void* find_anywhere(const char* symbol) {
  // The callback only collects names. The loader holds a lock while it runs, and dlopen() takes the locks in
  // the opposite order.
  std::vector<std::string> objects;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* into) {
        if (*object->dlpi_name) static_cast<std::vector<std::string>*>(into)->push_back(object->dlpi_name);
        return 0;
      },
      &objects);
  const void* ours = dlsym(RTLD_DEFAULT, symbol);
  for (const std::string& object : objects) {
    void* handle = dlopen(object.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) continue;
    void* address = dlsym(handle, symbol);
    dlclose(handle);
    if (address && address != ours) return address;
  }
  return nullptr;
}

}  // namespace fairlead::mpi
