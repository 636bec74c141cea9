// SPDX-License-Identifier: Apache-2.0
//
// When a collective is to say whom it waits for: after FAIRLEAD_STALL_REPORT_S seconds, and again every so many.

#pragma once

#include <chrono>

#include "base/options.h"

namespace fairlead {

class ReportTimer {
 public:
  // Begins anew, now.
  void restart() { since_ = Clock::now(); }
  // Is it over? It begins anew then.
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
