// SPDX-License-Identifier: Apache-2.0
//
// Determines when a wait is reported: every FAIRLEAD_STALL_REPORT_S seconds from its first question on.

#pragma once

#include <chrono>

#include "base/options.h"

namespace fairlead {

class ReportTimer {
 public:
  using Clock = std::chrono::steady_clock;

  // The next question begins another wait.
  void restart() { began_ = {}; }
  // How many seconds the wait has lasted, if it is to be reported now; otherwise 0.
  int due(Clock::time_point now = Clock::now()) {
    if (began_ == Clock::time_point{}) began_ = reported_ = now;
    const std::chrono::seconds period(options().stall_report_s);
    if (period.count() == 0 || now - reported_ < period) return 0;
    reported_ = now;
    return static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(now - began_).count());
  }

 private:
  Clock::time_point began_, reported_;
};

}  // namespace fairlead
