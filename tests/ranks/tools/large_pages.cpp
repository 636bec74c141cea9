// SPDX-License-Identifier: Apache-2.0
//
// A library preloaded into ranks, which pretends that pages are 64 KiB long, as AArch64 may have them: memory
// is mapped at the beginning of such pages, and Fairlead is ended if it names an address or an offset
// elsewhere. Other libraries may: UCX 1.18 does to see whether it notices changes of mappings. (mprotect()
// may name smaller ones, since the program and its libraries are not linked for such pages.)

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr uintptr_t page = 64 << 10;

// A function: libraries map memory before this one has been initialised.
uintptr_t small_page() {
  return getauxval(AT_PAGESZ);
}

template <class Function>
Function* real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

uintptr_t whole(uintptr_t bytes, uintptr_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

uintptr_t number(const void* address) {
  return reinterpret_cast<uintptr_t>(address);
}

void need_whole_pages(const char* call, uintptr_t begin, const void* caller) {
  Dl_info object{};
  if (begin % page == 0 || !dladdr(caller, &object) || !std::strstr(object.dli_fname, "/libfairlead-"))
    return;
  std::fprintf(stderr, "%s of %#lx, where no page of 64 KiB begins\n", call, begin);
  std::abort();
}

}  // namespace

extern "C" long sysconf(int name) noexcept {
  static const auto next = real(&sysconf, "sysconf");
  return name == _SC_PAGESIZE ? static_cast<long>(page) : next(name);
}

extern "C" int getpagesize() noexcept {
  return page;
}

namespace {

void* map(void* wanted, size_t bytes, int protection, int flags, int file, off_t offset,
          const void* caller) noexcept {
  static const auto next = real(&mmap, "mmap");
  static const auto unmap = real(&munmap, "munmap");
  const bool fixed = flags & (MAP_FIXED | MAP_FIXED_NOREPLACE);
  need_whole_pages("mmap() of a file", static_cast<uintptr_t>(offset), caller);
  if (fixed) need_whole_pages("mmap()", number(wanted), caller);
  void* const found = next(wanted, bytes, protection, flags, file, offset);
  if (found == MAP_FAILED || fixed || found == wanted || number(found) % page == 0) return found;
  unmap(found, bytes);
  // Elsewhere: in a longer range, whose ends go.
  constexpr int anywhere = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const longer = next(nullptr, bytes + page, PROT_NONE, anywhere, -1, 0);
  if (longer == MAP_FAILED) return MAP_FAILED;
  const uintptr_t begin = whole(number(longer), page), end = begin + whole(bytes, small_page());
  void* const mapped =
      next(reinterpret_cast<void*>(begin), bytes, protection, flags | MAP_FIXED, file, offset);
  if (mapped == MAP_FAILED) {
    unmap(longer, bytes + page);
    return MAP_FAILED;
  }
  if (begin > number(longer)) unmap(longer, begin - number(longer));
  unmap(reinterpret_cast<void*>(end), whole(number(longer) + bytes + page, small_page()) - end);
  return mapped;
}

}  // namespace

extern "C" void* mmap(void* wanted, size_t bytes, int protection, int flags, int file,
                      off_t offset) noexcept {
  return map(wanted, bytes, protection, flags, file, offset, __builtin_return_address(0));
}

extern "C" void* mmap64(void* wanted, size_t bytes, int protection, int flags, int file,
                        off64_t offset) noexcept {
  return map(wanted, bytes, protection, flags, file, offset, __builtin_return_address(0));
}

extern "C" int munmap(void* begin, size_t bytes) noexcept {
  static const auto next = real(&munmap, "munmap");
  need_whole_pages("munmap()", number(begin), __builtin_return_address(0));
  return next(begin, bytes);
}

extern "C" int madvise(void* begin, size_t bytes, int advice) noexcept {
  static const auto next = real(&madvise, "madvise");
  need_whole_pages("madvise()", number(begin), __builtin_return_address(0));
  return next(begin, bytes, advice);
}
