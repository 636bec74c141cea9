// SPDX-License-Identifier: Apache-2.0
//
// Page-locked slots for copies of a few bytes between device and ordinary host memory, for messages whose
// cost is pure latency. The host detects the arrival of device-to-host copies in the slot itself, several
// microseconds before the stream reports completion. Where the CPU can access device memory it may copy the
// bytes itself (bar.h). Thread-safe.

#pragma once

#include <cstddef>
#include <utility>

#include "device/context.h"
#include "device/copies/copy.h"

namespace fairlead::device {

constexpr size_t small_copy_bytes = 4096;  // larger copies gain nothing
constexpr size_t watched_bytes = 256;      // up to this size the host polls each arriving word

// Holds small_copy_bytes bytes of page-locked memory during its lifetime; null if no slot is left.
class Slot {
 public:
  Slot() = default;
  static Slot take();
  Slot(Slot&& other) noexcept { *this = std::move(other); }
  Slot& operator=(Slot&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(context_, other.context_);
    return *this;
  }
  ~Slot();
  unsigned char* data() const { return data_; }

 private:
  unsigned char* data_ = nullptr;
  Context context_;
};

// Copies any number of bytes and waits; small copies use a slot or the CPU.
Error copy_to_host(int device, void* to, const void* from, size_t bytes);
// Returns true if the CPU has stored these bytes in device memory; false if the caller must use a copy
// engine.
bool store_small_to_device(int device, void* to, const void* from, size_t bytes);

}  // namespace fairlead::device
