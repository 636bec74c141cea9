// SPDX-License-Identifier: Apache-2.0
//
// A tool that exports no MPI function: it replaces the references of the loaded objects to MPI_Send, and
// Fairlead's to dlsym(), by which Fairlead would find the next MPI_Send. Tools that use GOTCHA, as
// Caliper may, work like this. It counts the calls of MPI_Send and their bytes.

#include <dlfcn.h>
#include <link.h>
#include <mpi.h>

#include <cstring>
#include <vector>

#include "base/system/imported_symbols.h"

namespace {

using Access = fairlead::LoadedObject::Access;

long long calls = 0, bytes = 0;
decltype(&MPI_Send) original = nullptr;

int send(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  int size = 0;
  PMPI_Type_size(type, &size);
  ++calls;
  bytes += static_cast<long long>(count) * size;
  return original(buf, count, type, dest, tag, comm);
}

void* find(void* handle, const char* name) {
  return std::strcmp(name, "MPI_Send") == 0 ? reinterpret_cast<void*>(&send)
                                            : fairlead::loader_dlsym(handle, name);
}

[[gnu::constructor]] void replace_references() {
  original = reinterpret_cast<decltype(original)>(fairlead::loader_dlsym(RTLD_DEFAULT, "MPI_Send"));
  std::vector<const void*> objects;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* into) {
        for (const auto* part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum; ++part)
          if (part->p_type == PT_DYNAMIC)
            static_cast<std::vector<const void*>*>(into)->push_back(
                reinterpret_cast<const void*>(object->dlpi_addr + part->p_vaddr));
        return 0;
      },
      &objects);
  for (const void* object : objects)
    fairlead::LoadedObject(object).for_each_import(Access::write, [](const fairlead::ImportedSymbol& symbol) {
      if (std::strcmp(symbol.name, "MPI_Send") == 0) *symbol.slot = reinterpret_cast<void*>(&send);
    });
  // Of the others' references to dlsym() it would have to know who asks.
  fairlead::LoadedObject(fairlead::loader_dlsym(RTLD_DEFAULT, "fairlead_info"))
      .for_each_import(Access::write, [](const fairlead::ImportedSymbol& symbol) {
        if (std::strcmp(symbol.name, "dlsym") == 0) *symbol.slot = reinterpret_cast<void*>(&find);
      });
}

}  // namespace

extern "C" int pmpi_counter_read(const char* name, long long* its_calls, long long* its_bytes) {
  *its_calls = calls;
  *its_bytes = bytes;
  return std::strcmp(name, "MPI_Send") == 0;
}
