// SPDX-License-Identifier: Apache-2.0
//
// All page-locked host memory of the library, kept for reuse. Thread-safe.

#pragma once

#include <utility>

#include "base/attempt.h"
#include "base/memory/host_buffer.h"
#include "device/context.h"

namespace fairlead::device {

class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  // For a piece of a message: of at most as much memory as FAIRLEAD_POOLS says. Beyond that limit, or if the
  // driver refuses, it is ordinary host memory: copies are slower then, but no message ever waits for a
  // buffer that another message holds. data() is null if `bytes` is 0 or no memory is available.
  explicit PinnedBuffer(size_t bytes);
  // Page-locked memory only, outside the limit, for what the library needs once. It ends with the context of
  // `device`, or if that is -1 of any. later: the driver may not be asked now (blocking_driver_calls.h).
  static Attempt make(size_t bytes, PinnedBuffer* made, int device = -1);
  // The same in a call of the program's that makes something, which may wait for the driver. pinned() is
  // false if the driver refuses.
  static PinnedBuffer of_program(size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(pinned_, other.pinned_);
    std::swap(context_, other.context_);
    std::swap(limited_, other.limited_);
    std::swap(ordinary_, other.ordinary_);
    return *this;
  }
  ~PinnedBuffer();

  unsigned char* data() const { return pinned_ ? pinned_ : ordinary_.data(); }
  // Returns whether devices can access the buffer directly.
  bool pinned() const { return pinned_ != nullptr; }
  // The same, and its context has not ended meanwhile.
  bool still_pinned() const { return pinned() && !context_.is_gone_for_any(); }
  // Of that memory.
  const Context& context() const { return context_; }

 private:
  bool take_idle(size_t longest);

  size_t bytes_ = 0;
  unsigned char* pinned_ = nullptr;
  Context context_;
  bool limited_ = false;  // counts towards the limit
  HostBuffer ordinary_;
};

// Returns idle buffers to the driver.
void release_pinned();

}  // namespace fairlead::device
