// SPDX-License-Identifier: Apache-2.0
//
// Whether two samples differ by more than chance explains.

#pragma once

#include <cstdint>
#include <vector>

namespace fairlead::tools {

// A value that was measured so many times.
struct Sample {
  double value = 0;
  uint64_t count = 1;
};
using Samples = std::vector<Sample>;

// The two-sided p-value of the Mann-Whitney U test: the probability that samples of one and the same thing
// differ as much. By the normal approximation, corrected for ties and continuity; 1 if one of them is empty.
double mann_whitney(const Samples& one, const Samples& other);

}  // namespace fairlead::tools
