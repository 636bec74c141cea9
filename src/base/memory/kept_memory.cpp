// SPDX-License-Identifier: Apache-2.0

#include "base/memory/kept_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

#include "base/memory/memory_file.h"

namespace fairlead {
namespace {

constexpr size_t alignment = 64;
constexpr uint64_t magic = 0x3174706b6c666c31;

struct alignas(alignment) Header {
  std::atomic<uint64_t> magic, chunks;  // the latter: taken
  std::atomic<int32_t> processes;
};
constexpr size_t header_bytes = size_t{1} << 16;  // a multiple of any page's length

struct alignas(alignment) Chunk {
  std::atomic<int32_t> process;  // its number + 1
};
struct alignas(alignment) Block {
  std::atomic<uint32_t> kind, bytes;  // written last; 0: no block
};

size_t rounded(size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

void* map(int file, size_t begin, size_t bytes, int access) {
  void* data = mmap(nullptr, bytes, access, MAP_SHARED | MAP_NORESERVE, file, static_cast<off_t>(begin));
  return data == MAP_FAILED ? nullptr : data;
}

size_t chunks_of(int file) {
  struct stat status;
  if (!is_memory_file(file, header_bytes) || fstat(file, &status) != 0) return 0;
  return (static_cast<size_t>(status.st_size) - header_bytes) / kept_chunk;
}

// Of this process. Never destroyed: threads may record when static objects are gone.
struct Keeper {
  std::mutex mutex;
  int file = -1;
  struct stat identity {};
  int process = 0;
  Header* header = nullptr;
  size_t room = 0;  // chunks
  char* next = nullptr;
  size_t left = 0;
};
Keeper& keeper() {
  static Keeper& the = *new Keeper;
  return the;
}

// The program may have closed the descriptor, and another file may have its number.
bool is_still_there(const Keeper& of) {
  struct stat now;
  return fstat(of.file, &now) == 0 && now.st_dev == of.identity.st_dev && now.st_ino == of.identity.st_ino &&
         chunks_of(of.file) == of.room;
}

bool take_chunk(Keeper& of) {
  if (!of.header) return false;
  const uint64_t number = of.header->chunks.fetch_add(1);
  void* const data = number < of.room && is_still_there(of) ? map(of.file, header_bytes + number * kept_chunk,
                                                                  kept_chunk, PROT_READ | PROT_WRITE)
                                                            : nullptr;
  if (!data) {
    of.header = nullptr;
    return false;
  }
  static_cast<Chunk*>(data)->process = of.process + 1;
  of.next = static_cast<char*>(data) + sizeof(Chunk);
  of.left = kept_chunk - sizeof(Chunk);
  return true;
}

}  // namespace

int make_kept_file(size_t chunks) {
  rlimit limit{};  // of files, which would end this process
  getrlimit(RLIMIT_FSIZE, &limit);
  const int file = make_memory_file("fairlead-parts",
                                    std::min<size_t>(header_bytes + chunks * kept_chunk, limit.rlim_cur));
  void* const data = chunks_of(file) == 0 ? nullptr : map(file, 0, header_bytes, PROT_READ | PROT_WRITE);
  if (!data) return file;
  static_cast<Header*>(data)->magic = magic;
  munmap(data, header_bytes);
  return file;
}

void keep_in(int file) {
  Keeper& the = keeper();
  std::lock_guard lock(the.mutex);
  the.room = chunks_of(file);
  auto* const header =
      the.room == 0 ? nullptr : static_cast<Header*>(map(file, 0, header_bytes, PROT_READ | PROT_WRITE));
  if (!header || header->magic != magic || fstat(file, &the.identity) != 0) return;
  the.file = file;
  the.process = header->processes.fetch_add(1);
  the.header = header;
}

void* allocate_kept(uint32_t kind, size_t bytes) {
  Keeper& the = keeper();
  std::lock_guard lock(the.mutex);
  const size_t needed = sizeof(Block) + rounded(bytes);
  if (the.left < needed && !take_chunk(the)) {
    void* const ordinary = ::operator new (rounded(bytes), std::align_val_t{alignment});
    std::fill_n(static_cast<char*>(ordinary), rounded(bytes), '\0');
    return ordinary;
  }
  auto* const block = reinterpret_cast<Block*>(the.next);
  the.next += needed;
  the.left -= needed;
  block->bytes = static_cast<uint32_t>(rounded(bytes));
  block->kind = kind;
  return block + 1;
}

void visit_kept(int file, const std::function<void(const KeptBlock&)>& visit) {
  const size_t room = chunks_of(file);
  const auto* const header =
      room == 0 ? nullptr : static_cast<const Header*>(map(file, 0, header_bytes, PROT_READ));
  if (!header) return;
  const size_t taken = std::min<uint64_t>(header->chunks, room);
  for (size_t number = 0; header->magic == magic && number < taken; ++number) {
    const auto* const data =
        static_cast<const char*>(map(file, header_bytes + number * kept_chunk, kept_chunk, PROT_READ));
    if (!data) continue;
    const int process = reinterpret_cast<const Chunk*>(data)->process - 1;
    for (size_t at = sizeof(Chunk); process >= 0 && at + sizeof(Block) <= kept_chunk;) {
      const auto* const block = reinterpret_cast<const Block*>(data + at);
      const size_t bytes = block->bytes;
      at += sizeof(Block) + rounded(bytes);
      if (block->kind == 0 || at > kept_chunk) break;
      visit({process, block->kind, block + 1, bytes});
    }
    munmap(const_cast<char*>(data), kept_chunk);
  }
  munmap(const_cast<Header*>(header), header_bytes);
}

}  // namespace fairlead
