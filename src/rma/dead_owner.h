// SPDX-License-Identifier: Apache-2.0
//
// Detects that the owner of an accumulate lock has died. A thread that waits for the lock keeps one: it
// reports after a while which process holds the lock (FAIRLEAD_STALL_REPORT_S), and checks whether that
// process still exists. It makes this check whatever the options are, because nobody else would release the
// lock of a dead process.

#pragma once

#include <chrono>

#include "base/report_timer.h"
#include "rma/locks.h"

namespace fairlead::rma {

class DeadOwnerDetector {
 public:
  // How this process is known as an owner: its PID, and the number of its PID namespace above.
  static uint64_t own_id();
  // The waiting thread calls this repeatedly. True: the owner is dead, or damage names none, and the lock
  // will never be released.
  bool owner_died(const AccumulateLock& accumulate_lock);

 private:
  using Clock = std::chrono::steady_clock;
  ReportTimer report_timer_;
  Clock::time_point looked_ = Clock::now();
};

}  // namespace fairlead::rma
