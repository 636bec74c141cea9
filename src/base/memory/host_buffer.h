// SPDX-License-Identifier: Apache-2.0
//
// Host memory for messages in flight, kept for reuse in size classes (powers of two). A large buffer costs
// only address space until it is touched. Of released buffers, a process keeps about 256 MiB of pages.
// Buffers beyond 64 GiB, which hold images of user buffers with distant parts, take no more address space
// than they need and are not kept. Thread-safe.
//
// Against the quirk overlong_message, 1 MiB after each of the first 128 receive buffers stays unused, and
// these buffers are taken first. Further receive buffers lie contiguously in regions, each of which ends with
// 64 MiB that stay unused. Such a message therefore overwrites no memory of the program; at worst it
// overwrites other messages that have just arrived.

#pragma once

#include <cstddef>
#include <utility>

namespace fairlead {

class HostBuffer {
 public:
  HostBuffer() = default;
  enum class For { any, receive };
  // data() is null if no memory is available.
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
  // Only this many bytes were written, so the destructor need not return the other pages to the system.
  void note_used(size_t bytes) {
    if (bytes < bytes_) bytes_ = bytes;
  }

 private:
  // The caller holds the lock. Takes the last released buffer of the list if there is one.
  template <class List>
  bool take_from(List* list);

  unsigned char* data_ = nullptr;
  For use_ = For::any;
  bool apart_ = false;  // followed by unused memory
  int size_class_ = 0;
  size_t bytes_ = 0, room_ = 0;
  size_t touched_before_ = 0;
};

}  // namespace fairlead
