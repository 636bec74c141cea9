// SPDX-License-Identifier: Apache-2.0
//
// Page-locked host memory for pieces of messages, kept for reuse: at most as much as FAIRLEAD_POOLS says.
// Beyond that limit, or if the driver refuses, a buffer is ordinary host memory: copies are slower then, but
// no message ever waits for a buffer that another message holds. Thread-safe.

#pragma once

#include <utility>

#include "base/memory/host_buffer.h"
#include "device/context.h"

namespace fairlead::device {

class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  // data() is null if `bytes` is 0 or no memory is available.
  explicit PinnedBuffer(size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(pinned_, other.pinned_);
    std::swap(context_, other.context_);
    std::swap(ordinary_, other.ordinary_);
    return *this;
  }
  ~PinnedBuffer();

  unsigned char* data() const { return pinned_ ? pinned_ : ordinary_.data(); }
  // Returns whether devices can access the buffer directly.
  bool pinned() const { return pinned_ != nullptr; }

 private:
  size_t bytes_ = 0;
  unsigned char* pinned_ = nullptr;
  Context context_;
  HostBuffer ordinary_;
};

// Returns idle buffers to the driver.
void release_pinned();

}  // namespace fairlead::device
