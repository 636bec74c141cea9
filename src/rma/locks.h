// SPDX-License-Identifier: Apache-2.0
//
// The words by which origins share a target: a reader-writer lock for MPI_Win_lock and MPI_Win_lock_all, and
// the accumulate lock under which accumulates change memory. The words lie in memory that starts as zeros and
// that processes may share. Any process that maps them can take them; no function here waits.

#pragma once

#include <atomic>
#include <cstdint>

#include "base/system/processor.h"

namespace fairlead::rma {

// A reader-writer lock in first-come, first-served order, so that neither readers nor writers starve. Each
// caller draws a ticket; readers with consecutive tickets hold the lock together. A caller must use a ticket
// that it has drawn, because the tickets after it wait for it.
class FairLock {
 public:
  uint32_t draw() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // True when the ticket's turn has come. The caller repeats the call until it returns true, and not after
  // that.
  bool enter(uint32_t ticket, bool exclusive) {
    if (exclusive) return for_writers_.load(std::memory_order_acquire) == ticket;
    if (for_readers_.load(std::memory_order_acquire) != ticket) return false;
    for_readers_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  // Another process has damaged the lock: the ticket's turn is over, or more callers are before it than there
  // can be. Only for a ticket that has not entered.
  bool is_damaged(uint32_t ticket) const {
    constexpr uint32_t most = 1 << 24;
    return ticket - for_writers_.load(std::memory_order_relaxed) > most ||
           ticket - for_readers_.load(std::memory_order_relaxed) > most;
  }
  void leave(bool exclusive) {
    if (exclusive) for_readers_.fetch_add(1, std::memory_order_release);
    for_writers_.fetch_add(1, std::memory_order_release);
  }

 private:
  std::atomic<uint32_t> next_, for_readers_, for_writers_;
};

// A process holds this lock for the duration of a kernel, and never while it is outside MPI. `me` is above 0
// and differs for all threads that may contend for the lock.
class AccumulateLock {
 public:
  bool take(uint64_t me) {
    uint64_t free = 0;
    return holder_.load(std::memory_order_relaxed) == 0 &&
           holder_.compare_exchange_strong(free, me, std::memory_order_acquire);
  }
  void give_back() { holder_.store(0, std::memory_order_release); }
  uint64_t holder() const { return holder_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> holder_;
};

// What the ranks of a window share about one target.
struct alignas(cache_line) TargetWords {
  FairLock lock;
  alignas(cache_line) AccumulateLock accumulate_lock;
  // The number of barriers that the target itself has entered.
  alignas(cache_line) std::atomic<uint64_t> barriers;
};

}  // namespace fairlead::rma
