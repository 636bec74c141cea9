// SPDX-License-Identifier: Apache-2.0
//
// Knows the context in which this process has made things on each device, by a number of the driver's, and
// counts those that have ended. Thread-safe.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/log.h"

namespace fairlead::device {

template <int devices>
class Contexts {
 public:
  // How many have ended.
  uint32_t number(int device) const { return entries_[device].number.load(std::memory_order_acquire); }
  bool is_known(int device) const { return entries_[device].id.load(std::memory_order_acquire) != 0; }
  void begin(int device, uint64_t id) { entries_[device].id.store(id, std::memory_order_release); }

  // Compares the known context with the present one (0: there is none). If it has ended, calls `forget`
  // before another thread can find out.
  template <class Forget>
  void compare(int device, uint64_t present, Forget forget) {
    Entry& entry = entries_[device];
    const uint64_t known = entry.id.load(std::memory_order_acquire);
    if (known == 0 || known == present) return;
    std::lock_guard lock(mutex_);
    if (entry.id != known) return;
    forget();
    ++entry.number;
    entry.id = 0;
    log_line(LogLevel::info, "device %d was reset: what was kept for it is created again", device);
  }

  // May the context have ended since the last allocation that this function was called for? An older one
  // would be gone.
  bool is_newest(int device, uint64_t allocation) {
    std::atomic<uint64_t>& newest = entries_[device].newest;
    if (allocation <= newest.load(std::memory_order_relaxed)) return false;
    newest.store(allocation, std::memory_order_relaxed);
    return true;
  }

 private:
  struct Entry {
    std::atomic<uint64_t> id = 0, newest = 0;
    std::atomic<uint32_t> number = 0;
  };
  std::array<Entry, devices> entries_;
  std::mutex mutex_;
};

}  // namespace fairlead::device
