// SPDX-License-Identifier: Apache-2.0
//
// The words by which origins share a target: a reader-writer lock for MPI_Win_lock and MPI_Win_lock_all, and
// the ownership under which accumulates change memory. They lie in memory that starts as zeros, which
// processes may share, and are taken by whoever reaches them; nobody waits in here.

#pragma once

#include <atomic>
#include <cstdint>

namespace fairlead::rma {

// First come, first served, so that neither readers nor writers starve: each draws a ticket, and readers
// whose tickets follow each other hold the lock together. A drawn ticket must be used: those behind it wait
// for it.
class FairLock {
 public:
  uint32_t draw() { return next_.fetch_add(1, std::memory_order_relaxed); }
  // Has the turn of this ticket come? Asked again until it has, then never more.
  bool enter(uint32_t ticket, bool exclusive) {
    if (exclusive) return for_writers_.load(std::memory_order_acquire) == ticket;
    if (for_readers_.load(std::memory_order_acquire) != ticket) return false;
    for_readers_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  void leave(bool exclusive) {
    if (exclusive) for_readers_.fetch_add(1, std::memory_order_release);
    for_writers_.fetch_add(1, std::memory_order_release);
  }

 private:
  std::atomic<uint32_t> next_, for_readers_, for_writers_;
};

// Held for as long as a kernel takes, never while its holder is outside MPI. `me` is above 0, and different
// for all threads that may meet here.
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

// What the ranks of a window share about one of them.
struct alignas(64) TargetWords {
  FairLock lock;
  alignas(64) AccumulateLock accumulate_lock;
  // Barriers to which the target itself has come.
  alignas(64) std::atomic<uint64_t> barriers;
};

}  // namespace fairlead::rma
