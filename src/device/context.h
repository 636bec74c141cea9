// SPDX-License-Identifier: Apache-2.0
//
// Remembers in which context of a device something was made. When the program resets the device
// (cudaDeviceReset, hipDeviceReset), its context ends, and with it all streams, events, memory, mappings and
// registrations. Code that keeps such things asks here before it uses them, and drops what is gone without
// passing it to the driver: the driver may have given the handle or the address to something else. is_gone()
// costs a load, and knows of a reset once a call for that device has noticed it (Runtime::context_number()).
// Code that uses what it kept without such a call asks is_gone_now(), and for page-locked memory, which
// serves other devices as well, is_gone_for_any().

#pragma once

#include "device/classify.h"

namespace fairlead::device {

class Context {
 public:
  Context() = default;  // of nothing, which is never gone
  // The present one. Asks the driver, because the device may have been reset; -1: of nothing.
  explicit Context(int device) : device_(device) {
    if (device < 0) return;
    (void)runtime()->has_context(device);
    number_ = runtime()->context_number(device);
  }

  int device() const { return device_; }
  bool is_gone() const { return device_ >= 0 && runtime()->context_number(device_) != number_; }
  // Asks the driver as well.
  bool is_gone_now() const {
    if (device_ >= 0) (void)runtime()->has_context(device_);
    return is_gone();
  }
  // Asks it if messages of other devices may have left a reset unnoticed.
  bool is_gone_for_any() const {
    const bool several = (devices_seen() & ~(uint64_t{1} << (device_ & 63))) != 0;
    return several ? is_gone_now() : is_gone();
  }

 private:
  int device_ = -1;
  uint32_t number_ = 0;
};

// Asks the driver about each device, because it may have been reset. For callers that are about to release
// what they have made.
inline void notice_resets() {
  int count = 0;
  if (!runtime() || !runtime()->in_use() || runtime()->device_count(&count) != Error::none) return;
  for (int device = 0; device < count; ++device) (void)runtime()->has_context(device);
}

}  // namespace fairlead::device
