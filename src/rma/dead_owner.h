// SPDX-License-Identifier: Apache-2.0
//
// Kept by whoever waits for an ownership: says after a while whom it waits for (FAIRLEAD_STALL_REPORT_S), and
// finds out when that process has died, whatever the options say, since nobody would give the ownership back
// then.

#pragma once

#include <chrono>

#include "base/report_timer.h"
#include "rma/locks.h"

namespace fairlead::rma {

class DeadOwnerDetector {
 public:
  // Asked again and again. True: waiting is in vain.
  bool owner_died(const AccumulateLock& accumulate_lock);

 private:
  using Clock = std::chrono::steady_clock;
  ReportTimer report_timer_;
  Clock::time_point looked_ = Clock::now();
};

}  // namespace fairlead::rma
