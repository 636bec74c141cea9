// SPDX-License-Identifier: Apache-2.0
//
// What repeated measurements of one thing say. Benchmarks show the median, which one slow iteration does not
// move; whether it can be trusted follows from the rest.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace fairlead::tools {

// Between two measurements a percentile is in proportion: the median of an even number is the mean of the two
// in the middle. Of iterations, or of equal groups of them where there are very many.
struct Distribution {
  double mean = 0, min = 0, p1 = 0, p25 = 0, p50 = 0, p75 = 0, p99 = 0, max = 0;
  // The medians of so many batches of consecutive measurements, for `fairlead compare`; of few measurements,
  // these.
  static constexpr size_t most_batches = 20;
  size_t batches = 0;
  double batch[most_batches] = {};
};

// `values`: in the order in which they were measured.
Distribution distribution(std::vector<double> values);

double mean(const std::vector<double>& values);
double median(std::vector<double> values);

// The median is doubtful: the middle half of the measurements spreads over more than a fifth. What few of
// them do, as slow as they may be, does not move it. Few measurements tell nothing.
bool noisy(const Distribution& distribution, int64_t measurements);

}  // namespace fairlead::tools
