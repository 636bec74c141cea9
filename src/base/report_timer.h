// SPDX-License-Identifier: Apache-2.0
//
// Determines when a collective reports for which ranks it waits: every FAIRLEAD_STALL_REPORT_S seconds.

#pragma once

#include <chrono>

#include "base/options.h"

namespace fairlead {

class ReportTimer {
 public:
  // Restarts the interval now.
  void restart() { since_ = Clock::now(); }
  // Returns whether the interval is over, and if so restarts it.
  bool is_over() {
    auto now = Clock::now();
    if (options().stall_report_s == 0 || now - since_ < std::chrono::seconds(options().stall_report_s))
      return false;
    since_ = now;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_ = Clock::now();
};

}  // namespace fairlead
