// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous copies. Each device has a few streams for copies; they never wait for
// the application's streams. A copy starts at once, or the caller enqueues it and it starts with others in
// one driver call. Batching pays for small and medium sizes: a driver call costs more than the transfer of
// the bytes, and a copy engine that receives one call at a time idles between calls. A copy that fails is
// retried alone a few times: the error may be transient, or another copy of the same batch may have caused
// it. Thread-safe. A Copy belongs to one thread at a time and must not move in memory.

#pragma once

#include <cstdint>
#include <optional>

#include "device/runtime.h"

namespace fairlead::device {

struct Launch;

// The limit that drivers impose.
inline constexpr size_t longest_pitch = (size_t{1} << 31) - 1;

class Copy {
 public:
  Copy() = default;
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;
  ~Copy();  // waits: the memory of a running copy must stay valid

  // `device` executes the copy. -1: both buffers are host memory, and the function copies at once.
  Error start(int device, void* to, const void* from, size_t bytes);
  // Copies rows of `width` bytes that begin one pitch apart. No pitch may exceed longest_pitch.
  Error start_rows(int device, void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                   size_t rows);
  // The same as start() between buffers of devices; the GPU stores `value` to `word` when the bytes are there
  // (Runtime::write_word).
  Error start_and_tell(int device, void* to, const void* from, size_t bytes, uint32_t* word, uint32_t value);
  // The copy starts with the next start_enqueued(), or when the caller waits for it.
  Error enqueue(int device, void* to, const void* from, size_t bytes);
  // If the copy is still enqueued, starts all that are, also while others run.
  void start_now();
  // Error::none: the copy is complete or was never started. Error::not_ready: it is running. Any other value:
  // it failed, possibly at its start.
  Error poll();
  Error wait();
  // The caller has observed that the bytes arrived, so no stream query is necessary. Valid only for copies
  // that started at once.
  void forget();

 private:
  friend struct CopyStreams;
  Error start(int device, const CopyItem& item, uint32_t* word = nullptr, uint32_t value = 0);
  Error launch();
  Error leave();
  bool active_ = false;          // the owning thread's, like the next two
  Error outcome_ = Error::none;  // when not active
  int attempts_ = 0;
  unsigned polls_ = 0;        // while enqueued
  Launch* launch_ = nullptr;  // null while enqueued; the lock guards this and the members below
  int device_ = -1;
  CopyItem item_{};
  uint32_t* word_ = nullptr;  // null unless start_and_tell() began the copy
  uint32_t value_ = 0;
};

// Before streams of the program wait for this process: makes the streams and some events for the copies of a
// device, which progress cannot make later (blocking_driver_calls.h). From then on copies use only these.
// False if the device has none. For threads of the program that hold no locks: another one's call of the
// driver may make them wait.
bool prepare_copies(int device);
// The same for all other devices whose memory was classified. Costs next to nothing if there are none.
void prepare_copies_of_seen();

// Starts the enqueued copies, unless enough launches are in flight that a larger batch can form first.
void start_enqueued();

// Copies and waits for completion.
Error copy_now(int device, void* to, const void* from, size_t bytes);

// Finds out whether a copy ends: makes it in a stream of its own and waits. Error::not_ready: it has not
// ended after ten seconds, and the stream is given up. Empty: no stream can be made now.
std::optional<Error> try_copy(int device, void* to, const void* from, size_t bytes);

}  // namespace fairlead::device
