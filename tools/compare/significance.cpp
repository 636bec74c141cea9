// SPDX-License-Identifier: Apache-2.0

#include "compare/significance.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace fairlead::tools {
namespace {

// How many values of each sample there are of one value.
struct Both {
  double one = 0, other = 0;
  double all() const { return one + other; }
};
using Values = std::map<double, Both>;

// The probability that `ones` of all values, chosen at random, have a sum of ranks that is as far from its
// mean as `distance`, in halves of a rank, since equal values share the mean of theirs.
double exact(const Values& values, size_t ones, size_t all, double distance) {
  const size_t most = 2 * all * all;
  std::vector<std::vector<double>> ways(ones + 1, std::vector<double>(most + 1));
  ways[0][0] = 1;
  size_t below = 0;
  for (const auto& [value, both] : values) {
    const auto alike = static_cast<size_t>(both.all());
    const size_t rank = 2 * below + alike + 1;
    for (size_t copy = 0; copy < alike; ++copy)
      for (size_t chosen = ones; chosen > 0; --chosen)
        for (size_t sum = most; sum >= rank; --sum) ways[chosen][sum] += ways[chosen - 1][sum - rank];
    below += alike;
  }
  const double mean = static_cast<double>(ones) * static_cast<double>(all + 1);
  double total = 0, as_far = 0;
  for (size_t sum = 0; sum <= most; ++sum) {
    total += ways[ones][sum];
    if (std::abs(static_cast<double>(sum) - mean) > distance - 0.5) as_far += ways[ones][sum];
  }
  return as_far / total;
}

}  // namespace

Comparison mann_whitney(const Samples& one, const Samples& other) {
  Values values;
  double ones = 0, others = 0;
  for (const Sample& sample : one) {
    values[sample.value].one += static_cast<double>(sample.count);
    ones += static_cast<double>(sample.count);
  }
  for (const Sample& sample : other) {
    values[sample.value].other += static_cast<double>(sample.count);
    others += static_cast<double>(sample.count);
  }
  Comparison found;
  if (ones == 0 || others == 0) return found;
  // How many pairs have the greater value in `one`; equal ones count half.
  double wins = 0, below = 0, ties = 0;
  for (const auto& [value, both] : values) {
    wins += both.one * (below + both.other / 2);
    below += both.other;
    ties += both.all() * both.all() * both.all() - both.all();
  }
  const double all = ones + others, more = wins - ones * others / 2;
  found.direction = more > 0 ? -1 : more < 0 ? 1 : 0;
  found.least =
      std::min(1.0, 2 * std::exp(std::lgamma(ones + 1) + std::lgamma(others + 1) - std::lgamma(all + 1)));
  constexpr double few = 40;
  if (all <= few) {
    found.p = exact(values, static_cast<size_t>(ones), static_cast<size_t>(all), 2 * std::abs(more));
  } else if (const double variance = ones * others / 12 * (all + 1 - ties / (all * (all - 1)));
             variance > 0) {
    found.p = std::erfc(std::max(0.0, std::abs(more) - 0.5) / std::sqrt(2 * variance));
  }
  return found;
}

}  // namespace fairlead::tools
