// SPDX-License-Identifier: Apache-2.0
//
// How a number differs between the ranks of a job.

#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace fairlead::observe {

// The median of an even number of ranks lies between the two middle values. Of ranks with equal values the
// lowest one is named.
struct Spread {
  uint64_t least = 0, median = 0, most = 0;
  int least_rank = 0, most_rank = 0;
};

// `of_ranks` has the value of each rank, and at least one.
inline Spread spread_of(std::vector<uint64_t> of_ranks) {
  const auto begin = of_ranks.begin(), end = of_ranks.end();
  const auto least = std::min_element(begin, end), most = std::max_element(begin, end);
  Spread spread{*least, 0, *most, static_cast<int>(least - begin), static_cast<int>(most - begin)};
  std::sort(begin, end);
  spread.median = std::midpoint(of_ranks[(of_ranks.size() - 1) / 2], of_ranks[of_ranks.size() / 2]);
  return spread;
}

}  // namespace fairlead::observe
