// SPDX-License-Identifier: Apache-2.0
//
// How long somebody has been short of memory. Others may give some back in a moment; but who goes on waiting
// for it may wait for ever (invariant M13).

#pragma once

#include <chrono>

namespace fairlead {

class Shortage {
 public:
  // There is none now. True when it has been so for long: the caller gives up.
  bool lasts() {
    constexpr auto long_enough = std::chrono::seconds(2);
    const auto now = Clock::now();
    if (since_ == Clock::time_point{}) since_ = now;
    return now - since_ > long_enough;
  }
  bool exists() const { return since_ != Clock::time_point{}; }
  void end() { since_ = {}; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point since_{};
};

}  // namespace fairlead
