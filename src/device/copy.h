// SPDX-License-Identifier: Apache-2.0
//
// Copies that run while the caller goes on. Each device has a few streams of its own ("lanes",
// FAIRLEAD_COPY_STREAMS). A copy starts at once, or is enqueued and starts together with others in one call of
// the driver: for small and middle sizes that call costs more than the bytes, and a copy engine that gets
// one call at a time stands idle between them. Lanes never wait for the application's streams.
// Thread-safe; a Copy belongs to one thread at a time and stays where it is.

#pragma once

#include "device/runtime.h"

namespace fairlead::device {

struct Launch;

class Copy {
 public:
  Copy() = default;
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy();  // waits: neither end of a running copy may go away

  // `device` runs the copy; -1 when both ends are host memory: then the bytes move at once.
  Error start(int device, void* to, const void* from, size_t bytes);
  // Starts with the next start_enqueued(), or when it is waited for.
  Error enqueue(int device, void* to, const void* from, size_t bytes);
  // none: arrived (or never started); not_ready; else the copy failed.
  Error poll();
  Error wait();
  // The caller saw the bytes arrive: the stream need not be asked. Only for copies that started at once.
  void forget();

 private:
  friend struct Lanes;
  Error leave();
  bool active_ = false;  // the owner's; what follows changes under the lock
  Launch* launch_ = nullptr;  // null while enqueued
  int device_ = -1;
  CopyItem item_{};
};

// Starts what was enqueued, unless so much is in flight that waiting gathers more.
void start_enqueued();

// A copy that is waited for; tried again a few times if it fails.
Error copy_now(int device, void* to, const void* from, size_t bytes);

}  // namespace fairlead::device
