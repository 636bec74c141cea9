// SPDX-License-Identifier: Apache-2.0
//
// Host memory for messages in passing, kept for reuse by powers of two. Large buffers cost address space
// only until they are touched; of released ones a process keeps some 256 MiB of pages. Those beyond 64 GiB,
// images of buffers whose parts lie far apart, take no more address space than they need and are not kept.
// Thread-safe.

#pragma once

#include <cstddef>
#include <utility>

namespace fairlead {

class HostBuffer {
 public:
  HostBuffer() = default;
  // data() is null when there is no memory. `reserve` bytes of address space are kept apart for it at least.
  explicit HostBuffer(size_t bytes, size_t reserve = 0);
  HostBuffer(HostBuffer&& other) noexcept { *this = std::move(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    std::swap(data_, other.data_);
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
  unsigned char* data_ = nullptr;
  int size_class_ = 0;
  size_t bytes_ = 0, room_ = 0;
  size_t touched_before_ = 0;
};

}  // namespace fairlead
