// SPDX-License-Identifier: Apache-2.0

#include "compare/significance.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace fairlead::tools {

double mann_whitney(const Samples& one, const Samples& other) {
  struct Both {
    double one = 0, other = 0;
  };
  std::map<double, Both> values;
  double ones = 0, others = 0;
  for (const Sample& sample : one) {
    values[sample.value].one += static_cast<double>(sample.count);
    ones += static_cast<double>(sample.count);
  }
  for (const Sample& sample : other) {
    values[sample.value].other += static_cast<double>(sample.count);
    others += static_cast<double>(sample.count);
  }
  if (ones == 0 || others == 0) return 1;
  // How many pairs have the greater value in `one`; equal ones count half.
  double wins = 0, below = 0, ties = 0;
  for (const auto& [value, both] : values) {
    wins += both.one * (below + both.other / 2);
    below += both.other;
    const double alike = both.one + both.other;
    ties += alike * alike * alike - alike;
  }
  const double all = ones + others;
  const double variance = ones * others / 12 * (all + 1 - ties / (all * (all - 1)));
  if (!(variance > 0)) return 1;  // all are equal
  const double distance = std::max(0.0, std::abs(wins - ones * others / 2) - 0.5);
  return std::erfc(distance / std::sqrt(2 * variance));
}

}  // namespace fairlead::tools
