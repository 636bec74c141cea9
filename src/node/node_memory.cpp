// SPDX-License-Identifier: Apache-2.0

#include "node/node_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/memory/page_size.h"

namespace fairlead::node {
namespace {

// Rooms are powers of two, so that a room that was given back fits again; large ones would leave too much of
// the file unused, and are multiples of 64 MiB.
uint64_t room_for(size_t bytes) {
  constexpr uint64_t large = uint64_t{64} << 20;
  const uint64_t wanted = std::max<uint64_t>(bytes, page_size());
  return wanted <= large ? std::bit_ceil(wanted) : (wanted + large - 1) / large * large;
}

// The kernel kills a process that lets a file grow beyond RLIMIT_FSIZE.
bool may_grow_to(uint64_t end) {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || end <= limit.rlim_cur)
    return true;
  errno = EFBIG;
  return false;
}

// Allocates in pieces, so that a signal that arrives again and again does not undo the whole allocation each
// time.
bool allocate_pages(int file, uint64_t offset, uint64_t bytes) {
  constexpr uint64_t piece = uint64_t{4} << 20;
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t some = std::min(piece, bytes - done);
    if (fallocate(file, 0, static_cast<off_t>(offset + done), static_cast<off_t>(some)) == 0)
      done += some;
    else if (errno != EINTR)
      return false;
  }
  return true;
}

void free_pages(int file, uint64_t offset, uint64_t bytes) {
  fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
            static_cast<off_t>(bytes));
}

// `move` is pread or pwrite.
template <class Move, class Bytes>
bool move_all(Move move, int file, Bytes* bytes, size_t count, uint64_t offset) {
  while (count > 0) {
    const ssize_t moved = move(file, bytes, count, static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return false;
    bytes += moved;
    count -= static_cast<size_t>(moved);
    offset += static_cast<uint64_t>(moved);
  }
  return true;
}

}  // namespace

bool NodeMemory::allocate(uint64_t offset, uint64_t bytes) const {
  if (!may_grow_to(offset + bytes)) return false;
  const int own = file();
  if (allocate_pages(own, offset, bytes)) return true;
  const int why = errno;
  free_pages(own, offset, bytes);
  errno = why;
  return false;
}

// False if another process has damaged the end, which only grows.
bool NodeMemory::add_room(uint64_t room, uint64_t* offset) {
  *offset = end_.fetch_add(room, std::memory_order_relaxed);
  if (*offset < own_end_ || *offset % page_size() != 0 || *offset > INT64_MAX - room) {
    errno = EIO;
    return false;
  }
  own_end_ = *offset + room;
  return true;
}

NodeMemory::Range NodeMemory::create(size_t bytes) {
  const uint64_t room = room_for(bytes);
  uint64_t offset;
  {
    std::lock_guard lock(mutex_);
    std::vector<uint64_t>& fitting = idle_[room];
    if (!fitting.empty()) {
      offset = fitting.back();
      fitting.pop_back();
    } else if (!add_room(room, &offset)) {
      return {};
    }
  }
  // If this fails, the room is not lost: it takes no memory, and is tried again.
  if (allocate(offset, bytes)) return map(offset, bytes, true);
  const int why = errno;
  std::lock_guard lock(mutex_);
  idle_[room].push_back(offset);
  errno = why;
  return {};
}

NodeMemory::Range NodeMemory::open(uint64_t offset, size_t bytes) {
  struct stat info;
  const bool there = offset >= begin_ && offset % page_size() == 0 && bytes > 0 &&
                     fstat(file(), &info) == 0 && offset <= static_cast<uint64_t>(info.st_size) &&
                     bytes <= static_cast<uint64_t>(info.st_size) - offset;
  return there ? map(offset, bytes, false) : Range();
}

NodeMemory::Range NodeMemory::map(uint64_t offset, size_t bytes, bool own) {
  Range range;
  range.memory_ = this;
  range.offset_ = offset;
  range.bytes_ = bytes;
  range.own_ = own;
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file(),
                    static_cast<off_t>(offset));
  if (data != MAP_FAILED) range.data_ = static_cast<unsigned char*>(data);
  return range;
}

void NodeMemory::give_back(uint64_t offset, uint64_t bytes) {
  free_pages(file(), offset, bytes);
  std::lock_guard lock(mutex_);
  idle_[room_for(bytes)].push_back(offset);
}

NodeMemory::Range& NodeMemory::Range::operator=(Range&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(offset_, other.offset_);
  std::swap(bytes_, other.bytes_);
  std::swap(data_, other.data_);
  std::swap(own_, other.own_);
  return *this;
}

NodeMemory::Range::~Range() {
  if (data_) munmap(data_, bytes_);
  if (own_) memory_->give_back(offset_, bytes_);
}

bool NodeMemory::Range::write(uint64_t at, const void* from, size_t bytes) const {
  return move_all(pwrite, memory_->file(), static_cast<const char*>(from), bytes, offset_ + at);
}

bool NodeMemory::Range::read(uint64_t at, void* to, size_t bytes) const {
  return move_all(pread, memory_->file(), static_cast<char*>(to), bytes, offset_ + at);
}

}  // namespace fairlead::node
