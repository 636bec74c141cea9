// SPDX-License-Identifier: Apache-2.0

#include "base/memory/dummy_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

#include "base/memory/page_size.h"

namespace fairlead {
namespace {

constexpr size_t reserve = size_t{64} << 20, piece = size_t{8} << 20;

struct Addresses {
  unsigned char* begin = nullptr;
  size_t bytes = 0;
};
std::mutex mutex;
Addresses longest[3];
size_t blocks = 0, bytes_of_blocks = 0;  // in use; all addresses are free again when no block is

// One shared mapping, which mremap() repeats. Neither counts as memory of the process's own.
Addresses map(size_t bytes) {
  static void* const memory =
      mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  bytes = (bytes + piece - 1) / piece * piece;
  void* const begin = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED || memory == MAP_FAILED) return {};
  auto* const at = static_cast<unsigned char*>(begin);
  // Not mremap(): quirk ucx_mremap.
  for (size_t done = 0; done < bytes; done += piece) {
    if (syscall(SYS_mremap, memory, 0, piece, MREMAP_MAYMOVE | MREMAP_FIXED, at + done) != -1) continue;
    munmap(begin, bytes);
    return {};
  }
  return {at, bytes};
}

}  // namespace

void reserve_dummy_memory() {
  for (DummyFor buffer : {DummyFor::sent, DummyFor::received, DummyFor::block}) dummy_memory(buffer, reserve);
}

// The caller holds the lock.
static unsigned char* find(DummyFor buffer, size_t bytes) {
  Addresses& known = longest[static_cast<size_t>(buffer)];
  if (known.bytes < bytes)
    if (const Addresses longer = map(bytes); longer.begin) known = longer;
  return known.bytes < bytes ? nullptr : known.begin;
}

unsigned char* dummy_memory(DummyFor buffer, size_t bytes) {
  std::lock_guard lock(mutex);
  return find(buffer, bytes);
}

unsigned char* dummy_memory_for_block(size_t bytes) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  std::lock_guard lock(mutex);
  const size_t begin = bytes_of_blocks, end = begin + whole_pages(bytes);
  unsigned char* const all = find(DummyFor::block, end);
  if (!all || mmap(all + begin, page_size(), PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
    return nullptr;
  ++blocks;
  bytes_of_blocks = end;
  return all + begin;
}

void give_back_dummy_block() {
  std::lock_guard lock(mutex);
  if (--blocks == 0) bytes_of_blocks = 0;
}

}  // namespace fairlead
