// SPDX-License-Identifier: Apache-2.0

#include "base/system/imported_symbols.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace fairlead {
namespace {

// What an entry of the tables does with a symbol: others than these hold offsets, numbers of modules, or
// copies of data. And the version of dlsym() in the first glibc for the processor, which all later ones have.
#if defined(__x86_64__)
constexpr ElfW(Xword) address_types[] = {R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT};
constexpr const char* first_glibc = "GLIBC_2.2.5";
#elif defined(__aarch64__)
constexpr ElfW(Xword) address_types[] = {R_AARCH64_ABS64, R_AARCH64_GLOB_DAT, R_AARCH64_JUMP_SLOT};
constexpr const char* first_glibc = "GLIBC_2.17";
#endif
static_assert(__ELF_NATIVE_CLASS == 64);

unsigned bind_of(const ElfW(Sym) & symbol) {
  return ELF64_ST_BIND(symbol.st_info);
}
size_t symbol_of(const ElfW(Rela) & relocation) {
  return ELF64_R_SYM(relocation.r_info);
}
bool holds_address(const ElfW(Rela) & relocation) {
  return std::ranges::count(address_types, ELF64_R_TYPE(relocation.r_info)) > 0;
}

// Makes whole pages of the range writable for as long as it lives. The loader protects whole pages only, of
// the length that the kernel told it. They contain data, so that no protection of code (BTI) is lost.
class Writable {
 public:
  Writable(uintptr_t begin, uintptr_t end) {
    const uintptr_t page = getauxval(AT_PAGESZ);
    begin_ = begin & ~(page - 1);
    bytes_ = (end & ~(page - 1)) - begin_;
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

}  // namespace

void* loader_dlsym(void* handle, const char* name) {
  using Dlsym = void*(void*, const char*);
  // Those tools leave dlvsym() alone.
  static Dlsym* const genuine = [] {
    void* found = dlvsym(RTLD_DEFAULT, "dlsym", first_glibc);
    return found ? reinterpret_cast<Dlsym*>(found) : &dlsym;
  }();
  return genuine(handle, name);
}

LoadedObject::LoadedObject(const void* address) {
  struct Search {
    LoadedObject* found;
    uintptr_t address;
  } search{this, reinterpret_cast<uintptr_t>(address)};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* into) {
        const auto* search = static_cast<Search*>(into);
        Range memory{~0UL, 0}, read_only;
        const void* dynamic = nullptr;
        for (const auto* part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum; ++part) {
          const Range range{object->dlpi_addr + part->p_vaddr,
                            object->dlpi_addr + part->p_vaddr + part->p_memsz};
          if (part->p_type == PT_LOAD)
            memory = {std::min(memory.begin, range.begin), std::max(memory.end, range.end)};
          if (part->p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const void*>(range.begin);
          if (part->p_type == PT_GNU_RELRO) read_only = range;
        }
        if (search->address < memory.begin || search->address >= memory.end) return 0;
        search->found->base_ = object->dlpi_addr;
        search->found->dynamic_ = dynamic;
        search->found->memory_ = memory;
        search->found->read_only_ = read_only;
        return 1;
      },
      &search);
}

bool LoadedObject::contains(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at >= memory_.begin && at < memory_.end;
}

bool LoadedObject::for_each_import(Access access,
                                   const std::function<void(const ImportedSymbol&)>& visit) const {
  if (!dynamic_) return false;
  const ElfW(Sym)* symbols = nullptr;
  const char* names = nullptr;
  struct Table {
    const ElfW(Rela) * first = nullptr;
    size_t bytes = 0;
  } data, calls;
  for (const auto* entry = static_cast<const ElfW(Dyn)*>(dynamic_); entry->d_tag != DT_NULL; ++entry) {
    // Some loaders write the addresses back into the table; others leave the values as they were linked.
    const ElfW(Addr) address = entry->d_un.d_ptr < base_ ? base_ + entry->d_un.d_ptr : entry->d_un.d_ptr;
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
      case DT_TEXTREL:  // references are in code, which is not writable
        return false;
      default:
        break;
    }
  }
  std::optional<Writable> writable;
  if (access == Access::write) writable.emplace(read_only_.begin, read_only_.end);
  if (!symbols || !names || (writable && !*writable)) return false;
  for (const Table& table : {data, calls})
    for (size_t i = 0; i < table.bytes / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela)& relocation = table.first[i];
      const ElfW(Sym)& symbol = symbols[symbol_of(relocation)];
      if (symbol_of(relocation) == 0 || !holds_address(relocation)) continue;
      visit({names + symbol.st_name, bind_of(symbol) == STB_WEAK,
             reinterpret_cast<void**>(base_ + relocation.r_offset)});
    }
  return true;
}

}  // namespace fairlead
