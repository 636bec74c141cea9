// SPDX-License-Identifier: Apache-2.0

#include "base/dummy_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <utility>

namespace fairlead {
namespace {

constexpr size_t reserve = size_t{64} << 20, piece = size_t{8} << 20;

struct Addresses {
  unsigned char* begin = nullptr;
  size_t bytes = 0;
};
std::mutex mutex;
Addresses longest[2];

// One shared mapping, which mremap() repeats. Neither counts as memory of the process's own.
Addresses map(size_t bytes) {
  static void* const memory =
      mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bytes = (bytes + piece - 1) / piece * piece;
  void* const begin = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED || memory == MAP_FAILED) return {};
  auto* const at = static_cast<unsigned char*>(begin);
  // UCX replaces mremap() by a function of its own, which loses the last argument.
  for (size_t done = 0; done < bytes; done += piece) {
    if (syscall(SYS_mremap, memory, 0, piece, MREMAP_MAYMOVE | MREMAP_FIXED, at + done) != -1) continue;
    munmap(begin, bytes);
    return {};
  }
  return {at, bytes};
}

}  // namespace

void reserve_dummy_memory() {
  for (DummyFor buffer : {DummyFor::sent, DummyFor::received}) dummy_memory(buffer, reserve);
}

unsigned char* dummy_memory(DummyFor buffer, size_t bytes) {
  std::lock_guard lock(mutex);
  Addresses& known = longest[static_cast<size_t>(buffer)];
  if (known.bytes < bytes)
    if (const Addresses longer = map(bytes); longer.begin) known = longer;
  return known.bytes < bytes ? nullptr : known.begin;
}

unsigned char* dummy_memory_after(size_t* taken, size_t bytes) {
  constexpr size_t page = 4096;
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  const size_t end = *taken + (bytes + page - 1) / page * page;
  unsigned char* const all = dummy_memory(DummyFor::received, end);
  if (!all || mmap(all + *taken, page, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return nullptr;
  return all + std::exchange(*taken, end);
}

}  // namespace fairlead
