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

struct Comparison {
  // Two-sided: the probability that samples of one and the same thing differ as much. 1 if one of them is
  // empty.
  double p = 1;
  // The least that p can be with so many values: where all of one sample are below all of the other.
  double least = 1;
  // 1 if the other sample has the greater values, by ranks; -1 if this one has; else 0.
  int direction = 0;
};

// The Mann-Whitney U test: exact, also with ties, for up to 40 values together; else by the normal
// approximation, corrected for ties and continuity.
Comparison mann_whitney(const Samples& one, const Samples& other);

}  // namespace fairlead::tools
