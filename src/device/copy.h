// SPDX-License-Identifier: Apache-2.0
//
// Copies that run while the caller goes on. Each device has a few streams of its own ("lanes",
// FAIRLEAD_COPY_STREAMS). A copy starts at once, or is enqueued and starts together with others in one call
// of the driver: for small and middle sizes that call costs more than the bytes, and a copy engine that gets
// one call at a time stands idle between them. Lanes never wait for the application's streams.
// A copy that fails is tried again, alone, a few times: it may fail where the next one does not, or because
// of others that started with it. Thread-safe; a Copy belongs to one thread at a time and stays where it is.

#pragma once

#include "device/runtime.h"

namespace fairlead::device {

struct Launch;

// As drivers have it.
inline constexpr size_t longest_pitch = (size_t{1} << 31) - 1;

class Copy {
 public:
  Copy() = default;
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy();  // waits: neither end of a running copy may go away

  // `device` runs the copy; -1 when both ends are host memory: then the bytes move at once.
  Error start(int device, void* to, const void* from, size_t bytes);
  // The same for rows of `width` bytes, which begin a pitch apart; no pitch is above longest_pitch.
  Error start_rows(int device, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                   size_t rows);
  // Starts with the next start_enqueued(), or when it is waited for.
  Error enqueue(int device, void* to, const void* from, size_t bytes);
  // none: arrived (or never started); not_ready; else the copy failed, also at its start.
  Error poll();
  Error wait();
  // The caller saw the bytes arrive: the stream need not be asked. Only for copies that started at once.
  void forget();

 private:
  friend struct Lanes;
  Error start(int device, const CopyItem& item);
  Error launch();
  Error leave();
  bool active_ = false;          // the owner's, as are the next two
  Error outcome_ = Error::none;  // when not active
  int attempts_ = 0;
  Launch* launch_ = nullptr;  // null while enqueued; changes under the lock, as does the rest
  int device_ = -1;
  CopyItem item_{};
};

// Starts what was enqueued, unless so much is in flight that waiting gathers more.
void start_enqueued();

// A copy that is waited for.
Error copy_now(int device, void* to, const void* from, size_t bytes);

}  // namespace fairlead::device
