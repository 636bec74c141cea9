// SPDX-License-Identifier: Apache-2.0

#include "bench/distribution.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fairlead::tools {

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double median(std::vector<double> values) {
  return distribution(std::move(values)).p50;
}

Distribution distribution(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  auto at = [&](double fraction) {
    const double place = fraction * double(values.size() - 1);
    const auto below = static_cast<size_t>(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - double(below)) * (values[above] - values[below]);
  };
  return {mean(values), values.front(), at(0.01), at(0.25), at(0.5), at(0.75), at(0.99), values.back()};
}

bool noisy(const Distribution& d, int64_t measurements) {
  constexpr int64_t fewest = 10;
  constexpr double most = 1.2;
  return measurements >= fewest && d.p75 > most * d.p25;
}

}  // namespace fairlead::tools
