// SPDX-License-Identifier: Apache-2.0
//
// Limits how often a program repeats a query that costs some microseconds and whose answer rarely changes: at
// most once per pause, which is a millisecond by default. Threads may share one object; several threads that
// call at the same time may all be permitted. RareLook does so in a wait that polls, where a clock would cost
// as much as the poll.

#pragma once

#include <atomic>
#include <chrono>

namespace fairlead {

class RateLimit {
 public:
  constexpr RateLimit() = default;
  constexpr explicit RateLimit(std::chrono::milliseconds pause) : pause_(pause) {}

  // Returns whether the pause is over, and if so starts the next one.
  bool due() {
    const Clock::time_point now = Clock::now();
    if (now - last_.load(std::memory_order_relaxed) < pause_) return false;
    last_.store(now, std::memory_order_relaxed);
    return true;
  }

  // Returns whether `look` found something; false during a pause. A pause starts only after `look` has found
  // nothing, not before: a thread that calls while another one looks must look as well.
  template <class Look>
  bool found_by(Look look) {
    const Clock::time_point now = Clock::now();
    if (now - last_.load(std::memory_order_relaxed) < pause_) return false;
    if (look()) return true;
    last_.store(now, std::memory_order_relaxed);
    return false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const std::chrono::milliseconds pause_{1};
  std::atomic<Clock::time_point> last_{Clock::time_point{}};
};

// One poll in 64 also looks at what hardly ever changes.
class RareLook {
 public:
  bool due() { return ++polls_ % 64 == 0; }

 private:
  unsigned polls_ = 0;
};

}  // namespace fairlead
