// SPDX-License-Identifier: Apache-2.0
//
// From the clock of one process to that of another: the clocks were compared at two times, and drift evenly
// between and beyond them.

#pragma once

#include <cstdint>

namespace fairlead::observe {

// At `here`, the other clock was ahead by `ahead`; nanoseconds.
struct ClockReading {
  uint64_t here = 0;
  int64_t ahead = 0;
};

// One question and answer: asked and answered by this clock, the other one's time in between. The answer came
// half way, as far as anyone knows, so the shortest of several tells most.
inline ClockReading reading_of(uint64_t asked, uint64_t other, uint64_t answered) {
  uint64_t middle = asked + (answered - asked) / 2;
  return {middle, static_cast<int64_t>(other - middle)};
}

struct ClockFit {
  ClockReading first, last;

  uint64_t translate(uint64_t here) const {
    double slope = 0;
    if (last.here > first.here)
      slope = static_cast<double>(last.ahead - first.ahead) / static_cast<double>(last.here - first.here);
    double since = static_cast<double>(static_cast<int64_t>(here - first.here));
    return here + static_cast<uint64_t>(first.ahead + static_cast<int64_t>(slope * since));
  }
};

}  // namespace fairlead::observe
