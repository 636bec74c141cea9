// SPDX-License-Identifier: Apache-2.0
//
// Measures how long a caller has been short of memory. Other operations may release memory soon, but a caller
// that waits without limit may deadlock (invariant M13).

#pragma once

#include <chrono>

namespace fairlead {

class Shortage {
 public:
  // Called when no memory is available. Returns true if that has lasted so long that the caller must give up.
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
