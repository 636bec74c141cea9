// SPDX-License-Identifier: Apache-2.0
//
// For questions that cost some microseconds and whose answer rarely changes: asked once a millisecond at
// most.

#pragma once

#include <chrono>

namespace fairlead {

class Sparingly {
 public:
  // Is it time to ask again? Then the next millisecond begins.
  bool due() {
    constexpr std::chrono::milliseconds pause{1};
    auto now = Clock::now();
    if (now - last_ < pause) return false;
    last_ = now;
    return true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_{};
};

}  // namespace fairlead
