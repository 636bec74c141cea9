// SPDX-License-Identifier: Apache-2.0
//
// Host memory for messages in passing, kept for reuse by powers of two. Large buffers cost address space
// only until they are touched; of released ones a process keeps some 256 MiB of pages. Those beyond 64 GiB,
// images of buffers whose parts lie far apart, take no more address space than they need and are not kept.
// Thread-safe.
//
// Open MPI writes the whole of a message that is longer than its receive (seen with 4.1.4 and 5.0.11 between
// processes of a node). So 1 MiB behind each of the first 128 buffers for receives is unused, and those are taken
// before others. Others lie behind each other in regions, each of which ends with 64 MiB that are unused: such a
// message overwrites nothing of the program, at worst other messages that have just arrived.

#pragma once

#include <cstddef>
#include <utility>

namespace fairlead {

class HostBuffer {
 public:
  HostBuffer() = default;
  enum class For { any, receive };
  // data() is null when there is no memory.
  explicit HostBuffer(size_t bytes, For use = For::any);
  HostBuffer(HostBuffer&& other) noexcept { *this = std::move(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(use_, other.use_);
    std::swap(apart_, other.apart_);
    std::swap(size_class_, other.size_class_);
    std::swap(bytes_, other.bytes_);
    std::swap(room_, other.room_);
    std::swap(touched_before_, other.touched_before_);
    return *this;
  }
  ~HostBuffer();

  unsigned char* data() const { return data_; }
  // No more than this was written: the rest need not be given back.
  void note_used(size_t bytes) {
    if (bytes < bytes_) bytes_ = bytes;
  }

 private:
  // With the lock: the last of the released ones, if there is any.
  template <class List>
  bool take_from(List* list);

  unsigned char* data_ = nullptr;
  For use_ = For::any;
  bool apart_ = false;  // nothing lies right behind it
  int size_class_ = 0;
  size_t bytes_ = 0, room_ = 0;
  size_t touched_before_ = 0;
};

}  // namespace fairlead
