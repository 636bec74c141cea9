// SPDX-License-Identifier: Apache-2.0
//
// Page-locked slots for copies of a few bytes between device and ordinary host memory, for messages whose
// cost is latency alone. On the way to the host, their arrival is seen in the slot itself, which is several
// microseconds earlier than the stream can tell. Where the CPU reaches device memory it may copy the bytes
// itself (bar.h). Thread-safe.

#pragma once

#include <cstddef>
#include <utility>

#include "device/copy.h"

namespace fairlead::device {

constexpr size_t small_copy_bytes = 4096;  // larger copies do not gain
constexpr size_t watched_bytes = 256;      // up to here the arriving words are watched one by one

// small_copy_bytes bytes of page-locked memory, held while it lives; null when there is none left.
class Slot {
 public:
  Slot() = default;
  static Slot take();
  Slot(Slot&& other) noexcept { *this = std::move(other); }
  Slot& operator=(Slot&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~Slot();
  unsigned char* data() const { return data_; }

 private:
  unsigned char* data_ = nullptr;
};

// Any number of bytes, waited for; few of them by the shorter way.
Error copy_to_host(int device, void* to, const void* from, size_t bytes);
// True when the CPU has stored these bytes in device memory; false when a copy engine should.
bool store_small_to_device(int device, void* to, const void* from, size_t bytes);

}  // namespace fairlead::device
