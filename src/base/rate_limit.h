// SPDX-License-Identifier: Apache-2.0
//
// For questions that cost some microseconds and whose answer rarely changes: asked once in a while at most,
// a millisecond unless another pause is given. Threads may share one; each of several that come at once may
// then be told to ask.

#pragma once

#include <atomic>
#include <chrono>

namespace fairlead {

class RateLimit {
 public:
  constexpr RateLimit() = default;
  constexpr explicit RateLimit(std::chrono::milliseconds pause) : pause_(pause) {}

  // Is it time to ask again? Then the next pause begins.
  bool due() {
    const Clock::time_point now = Clock::now();
    if (now - last_.load(std::memory_order_relaxed) < pause_) return false;
    last_.store(now, std::memory_order_relaxed);
    return true;
  }

  // Has `look` found something? Only when it has found nothing does a pause begin, of which the answer is no:
  // a thread that comes while another looks must look, too.
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

}  // namespace fairlead
