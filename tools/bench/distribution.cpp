// SPDX-License-Identifier: Apache-2.0

#include "bench/distribution.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace fairlead::tools {

double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

namespace {

double percentile(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * double(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - double(below)) * (sorted[above] - sorted[below]);
}

void add_batches(const std::vector<double>& values, Distribution* d) {
  d->batches = std::min(values.size(), Distribution::most_batches);
  for (size_t i = 0; i < d->batches; ++i) {
    auto at = [&](size_t batch) {
      return values.begin() + std::ptrdiff_t(values.size() * batch / d->batches);
    };
    d->batch[i] = median({at(i), at(i + 1)});
  }
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : percentile(values, 0.5);
}

Distribution distribution(std::vector<double> values) {
  Distribution d;
  if (values.empty()) return d;
  add_batches(values, &d);
  std::sort(values.begin(), values.end());
  auto at = [&](double fraction) { return percentile(values, fraction); };
  d.mean = mean(values);
  d.min = values.front();
  d.p1 = at(0.01);
  d.p25 = at(0.25);
  d.p50 = at(0.5);
  d.p75 = at(0.75);
  d.p99 = at(0.99);
  d.max = values.back();
  return d;
}

bool noisy(const Distribution& d, int64_t measurements) {
  constexpr int64_t fewest = 10;
  constexpr double most = 1.2;
  return measurements >= fewest && d.p75 > most * d.p25;
}

}  // namespace fairlead::tools
