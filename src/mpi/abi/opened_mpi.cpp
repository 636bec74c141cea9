// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/opened_mpi.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"

namespace fairlead::mpi {
namespace {

#if __ELF_NATIVE_CLASS == 64
unsigned bind_of(const ElfW(Sym) & symbol) {
  return ELF64_ST_BIND(symbol.st_info);
}
size_t symbol_of(const ElfW(Rela) & relocation) {
  return ELF64_R_SYM(relocation.r_info);
}
#else
#error "relocations of 32-bit objects are not read"
#endif

// What the loader has recorded about this library.
struct OwnObject {
  ElfW(Addr) base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  uintptr_t read_only = 0;  // start of the part that is read-only after relocation
  size_t read_only_bytes = 0;
};

OwnObject own_object() {
  OwnObject own;
  Dl_info self;
  if (!dladdr(reinterpret_cast<void*>(&own_object), &self)) return own;
  own.base = reinterpret_cast<ElfW(Addr)>(self.dli_fbase);
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* into) {
        auto* own = static_cast<OwnObject*>(into);
        if (object->dlpi_addr != own->base) return 0;
        for (const auto* part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum; ++part) {
          if (part->p_type == PT_DYNAMIC)
            own->dynamic = reinterpret_cast<const ElfW(Dyn)*>(own->base + part->p_vaddr);
          if (part->p_type == PT_GNU_RELRO) {
            own->read_only = own->base + part->p_vaddr;
            own->read_only_bytes = part->p_memsz;
          }
        }
        return 1;
      },
      &own);
  return own;
}

// Makes the read-only part writable for as long as it lives.
class Writable {
 public:
  explicit Writable(const OwnObject& own) {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    begin_ = own.read_only & ~(page - 1);
    bytes_ = ((own.read_only + own.read_only_bytes) & ~(page - 1)) - begin_;
    done_ = protect(PROT_READ | PROT_WRITE);
  }
  ~Writable() { protect(PROT_READ); }
  Writable(const Writable&) = delete;
  Writable& operator=(const Writable&) = delete;
  explicit operator bool() const { return done_; }

 private:
  bool protect(int how) const {
    return bytes_ == 0 || mprotect(reinterpret_cast<void*>(begin_), bytes_, how) == 0;
  }

  uintptr_t begin_ = 0;
  size_t bytes_ = 0;
  bool done_ = false;
};

// If the loader did not find a weak symbol, its slot holds null, whatever the kind of relocation. The slot of
// a function that the loader binds at its first call holds another value, and the loader binds it later.
bool bind_weak_symbols() {
  const OwnObject own = own_object();
  if (!own.dynamic) return false;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  struct Table {
    const ElfW(Rela) * first = nullptr;
    size_t bytes = 0;
  } data, calls;
  for (const auto* entry = own.dynamic; entry->d_tag != DT_NULL; ++entry) {
    // Some loaders write the addresses back into the table; others leave the values as they were linked.
    const ElfW(Addr) address =
        entry->d_un.d_ptr < own.base ? own.base + entry->d_un.d_ptr : entry->d_un.d_ptr;
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols = reinterpret_cast<const ElfW(Sym)*>(address);
        break;
      case DT_STRTAB:
        names = reinterpret_cast<const char*>(address);
        break;
      case DT_RELA:
        data.first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_RELASZ:
        data.bytes = entry->d_un.d_val;
        break;
      case DT_JMPREL:
        calls.first = reinterpret_cast<const ElfW(Rela)*>(address);
        break;
      case DT_PLTRELSZ:
        calls.bytes = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
  Writable writable(own);
  if (!symbols || !names || !writable) return false;
  for (const Table& table : {data, calls})
    for (size_t i = 0; i < table.bytes / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela)& relocation = table.first[i];
      const ElfW(Sym)& symbol = symbols[symbol_of(relocation)];
      if (symbol.st_shndx != SHN_UNDEF || bind_of(symbol) != STB_WEAK) continue;
      auto* place = reinterpret_cast<void**>(own.base + relocation.r_offset);
      if (*place == nullptr) *place = dlsym(RTLD_DEFAULT, names + symbol.st_name);
    }
  return true;
}

// Makes a library global that was opened locally. It stays loaded as long as Fairlead.
bool open_to_all(void* function) {
  Dl_info library;
  return dladdr(function, &library) && library.dli_fname &&
         dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

}  // namespace

bool bind_opened_mpi() {
  static std::mutex mutex;
  static bool met = false;
  std::lock_guard lock(mutex);
  if (met) return true;
  constexpr const char* in_every_mpi = "PMPI_Init";
  if (!dlsym(RTLD_DEFAULT, in_every_mpi)) {
    void* hidden = find_anywhere(in_every_mpi);
    if (!hidden || !open_to_all(hidden)) return false;
  }
  met = bind_weak_symbols();
  if (!met)
    log_line(LogLevel::error,
             "the program opened its MPI late, and this library cannot be bound to it; preload the MPI's "
             "library (libmpi.so...) behind Fairlead's");
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
