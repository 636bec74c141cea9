// SPDX-License-Identifier: Apache-2.0

#include "flight/record.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/memory/memory_file.h"

namespace fairlead::flight {

constinit std::atomic<Rank*> detail::rank{nullptr};
constinit thread_local Thread* detail::thread = nullptr;

int make_file(int ranks) {
  return make_memory_file(file_name, bytes_of(ranks));
}

Header* map_file(int file, bool may_write) {
  struct stat status;
  if (!is_memory_file(file, bytes_of(1)) || fstat(file, &status) != 0) return nullptr;
  const auto bytes = static_cast<size_t>(status.st_size);
  void* data =
      mmap(nullptr, bytes, PROT_READ | (may_write ? PROT_WRITE : 0), MAP_SHARED | MAP_NORESERVE, file, 0);
  if (data == MAP_FAILED) return nullptr;
  auto* header = static_cast<Header*>(data);
  if (may_write && header->magic == 0) {
    header->bytes_of_rank = sizeof(Rank);
    header->ranks = static_cast<int32_t>((bytes - header_bytes) / sizeof(Rank));
    header->magic = magic;
  }
  if (is_sound(header, bytes)) return header;
  munmap(data, bytes);
  return nullptr;
}

// Another release may have made it, or anybody damaged it.
bool is_sound(const Header* header, size_t bytes) {
  return bytes >= bytes_of(1) && header->magic == magic && header->bytes_of_rank == sizeof(Rank) &&
         header->ranks > 0 && bytes_of(header->ranks) <= bytes;
}

namespace {

int note_program(dl_phdr_info* object, size_t, void* data) {
  auto* rank = static_cast<Rank*>(data);
  rank->program_base = object->dlpi_addr;
  rank->program_begin = UINT64_MAX;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    if (part.p_type != PT_LOAD) continue;
    rank->program_begin = std::min<uint64_t>(rank->program_begin, object->dlpi_addr + part.p_vaddr);
    rank->program_end =
        std::max<uint64_t>(rank->program_end, object->dlpi_addr + part.p_vaddr + part.p_memsz);
  }
  return 1;  // the first object is the program
}

}  // namespace

Rank* take_block(Header* header) {
  const int index = header->taken.fetch_add(1);
  if (index < 0 || index >= header->ranks) return nullptr;
  Rank& rank = block(header, index);
  rank.pid = getpid();
  dl_iterate_phdr(note_program, &rank);
  const ssize_t length = readlink("/proc/self/exe", rank.program, sizeof rank.program - 1);
  rank.program[std::max<ssize_t>(length, 0)] = '\0';
  return &rank;
}

namespace {

// Gives the place back when the thread ends.
struct Taken {
  Rank* rank = nullptr;
  uint32_t bit = 0;
  Thread* own = nullptr;
  ~Taken() {
    detail::thread = nullptr;
    if (rank) rank->threads_taken.fetch_and(~bit);
    delete own;
  }
};

}  // namespace

Thread* detail::take_thread(Rank* rank) {
  static thread_local Taken taken;
  uint32_t before = rank->threads_taken.load();
  size_t place = 0;
  do {
    for (place = 0; place < threads_kept && before >> place & 1; ++place) {
    }
  } while (place < threads_kept && !rank->threads_taken.compare_exchange_weak(before, before | 1u << place));
  if (place == threads_kept) return thread = taken.own = new Thread{};  // nobody reads it
  taken.rank = rank;
  taken.bit = 1u << place;
  rank->threads[place].open.store(0, std::memory_order_relaxed);
  return thread = &rank->threads[place];
}

const Call* last_call() {
  const Thread* thread = own_thread();
  const uint64_t begun = thread ? thread->begun.load(std::memory_order_relaxed) : 0;
  return begun > 0 ? &thread->calls[(begun - 1) % calls_kept] : nullptr;
}

void note_stream(int stream, const Call* call) {
  Rank* rank = own_rank();
  if (!rank) return;
  Call& line = rank->streams[static_cast<size_t>(stream) % streams_kept];
  put<uint64_t>(line.request, 0);
  if (!call) return;
  Call copy = *call;
  copy.request = 0;
  if (copy.kind == Kind::collective) copy.kind = Kind::enqueued;
  line = copy;
  __atomic_store_n(&line.request, uint64_t{1}, __ATOMIC_RELEASE);
}

}  // namespace fairlead::flight
