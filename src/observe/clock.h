// SPDX-License-Identifier: Apache-2.0
//
// Translates times between the clocks of two processes. The clocks were compared at two times; their drift is
// assumed to be linear between and beyond them.

#pragma once

#include <cstdint>

namespace fairlead::observe {

// At time `here`, the other clock was ahead by `ahead`; both in nanoseconds.
struct ClockReading {
  uint64_t here = 0;
  int64_t ahead = 0;
};

// One exchange: this clock's times of question and answer, and the other clock's time in between. The
// estimate assumes that the other process answered half way, so the shortest of several exchanges is the most
// precise.
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
