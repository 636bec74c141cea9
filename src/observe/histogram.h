// SPDX-License-Identifier: Apache-2.0
//
// Durations as counts per bucket: eight buckets of equal width for each power of two, so that every
// percentile is accurate to 6.25 %. Two histograms are merged by adding their buckets.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace fairlead::observe {

constexpr int octave_buckets = 8;
constexpr int histogram_buckets = 42 * octave_buckets;  // up to 2^44 ns, five hours

inline int bucket_of(uint64_t nanoseconds) {
  if (nanoseconds < octave_buckets) return static_cast<int>(nanoseconds);
  int octave = std::bit_width(nanoseconds) - 1;
  int part = static_cast<int>(nanoseconds >> (octave - 3)) % octave_buckets;
  return std::min((octave - 2) * octave_buckets + part, histogram_buckets - 1);
}

// The midpoint of a bucket, in nanoseconds.
inline double middle_of(int bucket) {
  if (bucket < octave_buckets) return bucket;
  int octave = bucket / octave_buckets + 2;
  double width = static_cast<double>(uint64_t{1} << (octave - 3));
  return width * (octave_buckets + bucket % octave_buckets + 0.5);
}

using Histogram = std::array<uint64_t, histogram_buckets>;

// Returns the time that `fraction` of all durations did not exceed, at most `longest`; 0 if there is none.
inline double percentile(const Histogram& histogram, double fraction, uint64_t longest) {
  uint64_t total = 0, sum = 0;
  for (uint64_t count : histogram) total += count;
  if (total == 0) return 0;
  for (int bucket = 0; bucket < histogram_buckets; ++bucket) {
    sum += histogram[static_cast<size_t>(bucket)];
    if (static_cast<double>(sum) >= fraction * static_cast<double>(total))
      return std::min(middle_of(bucket), static_cast<double>(longest));
  }
  return static_cast<double>(longest);
}

}  // namespace fairlead::observe
