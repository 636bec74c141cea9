// SPDX-License-Identifier: Apache-2.0
//
// Copies that run while the caller goes on. Each device has a few streams of its own ("lanes",
// FAIRLEAD_COPY_STREAMS); a copy takes an idle lane if there is one, whose completion is seen by asking the
// stream itself, and shares a busy one otherwise, behind an event. Lanes never wait for the application's
// streams. Thread-safe; a Copy belongs to one thread at a time.

#pragma once

#include "device/runtime.h"

namespace fairlead::device {

struct Lane;

class Copy {
 public:
  Copy() = default;
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy();  // waits: neither end of a running copy may go away

  // `device` runs the copy; -1 when both ends are host memory: then the bytes move at once.
  Error start(int device, void* to, const void* from, size_t bytes);
  // none: arrived (or never started); not_ready; else the copy failed.
  Error poll();
  Error wait();
  // The caller saw the bytes arrive: the stream need not be asked.
  void forget() {
    if (lane_) release();
  }
  bool running() const { return lane_ != nullptr; }

 private:
  void release();
  Lane* lane_ = nullptr;
  Event event_ = nullptr;
};

// A copy that is waited for; tried again a few times if it fails.
Error copy_now(int device, void* to, const void* from, size_t bytes);

}  // namespace fairlead::device
