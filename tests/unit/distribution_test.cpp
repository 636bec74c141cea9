// SPDX-License-Identifier: Apache-2.0
//
// Proves what the benchmarks say of repeated measurements: percentiles, when a figure is doubtful, and when
// two of them differ.

#include "bench/distribution.h"

#include <gtest/gtest.h>

#include "compare/significance.h"

namespace fairlead::tools {
namespace {

// From 1 to 100, not in order.
std::vector<double> hundred() {
  std::vector<double> values;
  for (int i = 0; i < 100; ++i) values.push_back(1 + i * 37 % 100);
  return values;
}

// As many as that, most of them 10.
Distribution with(double other, int others) {
  std::vector<double> values(100, 10);
  for (int i = 0; i < others; ++i) values[static_cast<size_t>(i)] = other;
  return distribution(values);
}

TEST(Distribution, percentiles) {
  Distribution d = distribution(hundred());
  EXPECT_DOUBLE_EQ(d.mean, 50.5);
  EXPECT_EQ(d.min, 1);
  EXPECT_DOUBLE_EQ(d.p1, 1.99);
  EXPECT_DOUBLE_EQ(d.p25, 25.75);
  EXPECT_DOUBLE_EQ(d.p50, 50.5);
  EXPECT_DOUBLE_EQ(d.p75, 75.25);
  EXPECT_DOUBLE_EQ(d.p99, 99.01);
  EXPECT_EQ(d.max, 100);
}

TEST(Distribution, the_median_of_an_even_number_is_between_the_two_in_the_middle) {
  EXPECT_EQ(distribution({8, 1, 2, 4}).p50, 3);
  EXPECT_EQ(distribution({8, 1, 4}).p50, 4);
}

TEST(Distribution, of_one_and_of_none) {
  Distribution one = distribution({7});
  EXPECT_EQ(one.mean, 7);
  EXPECT_EQ(one.p1, 7);
  EXPECT_EQ(one.p99, 7);
  EXPECT_EQ(distribution({}).max, 0);
}

TEST(Distribution, batches_are_in_the_order_of_measurement) {
  std::vector<double> values;
  for (int i = 0; i < 1000; ++i) values.push_back(i);
  const Distribution d = distribution(values);
  ASSERT_EQ(d.batches, Distribution::most_batches);
  EXPECT_DOUBLE_EQ(d.batch[0], 24.5);
  EXPECT_DOUBLE_EQ(d.batch[19], 974.5);
  const Distribution few = distribution({8, 1, 4});
  ASSERT_EQ(few.batches, 3u);
  EXPECT_EQ(few.batch[0], 8);
  EXPECT_EQ(few.batch[2], 4);
}

Samples samples(const std::vector<double>& values) {
  Samples result;
  for (double value : values) result.push_back({value});
  return result;
}

// The values are those of all ways to divide the values in two samples, and of R's wilcox.test(..., exact =
// FALSE) for many values.
TEST(MannWhitney, probabilities) {
  const Comparison ten =
      mann_whitney(samples({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), samples({6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_NEAR(ten.p, 0.0031392755850960185, 1e-12);
  EXPECT_EQ(ten.direction, 1);
  EXPECT_NEAR(mann_whitney(samples({1, 1, 2, 2, 3}), samples({2, 3, 3, 4, 4, 4})).p, 0.02813852813852814,
              1e-12);
  EXPECT_NEAR(mann_whitney({{1, 2}, {2, 2}, {3, 1}}, {{2, 1}, {3, 2}, {4, 3}}).p, 0.02813852813852814, 1e-12);
  const Comparison many = mann_whitney({{2, 5}, {3, 15}, {4, 10}}, {{1, 10}, {2, 10}, {3, 10}});
  EXPECT_NEAR(many.p, 3.167933448991847e-06, 1e-12);
  EXPECT_EQ(many.direction, -1);
}

// Of five values each, all of one sample may be below the other by chance once in 126 times.
TEST(MannWhitney, few_values_cannot_differ) {
  EXPECT_NEAR(mann_whitney(samples({1, 2, 3, 4}), samples({5, 6, 7, 8})).least, 0.02857142857142857, 1e-12);
  const Comparison five = mann_whitney(samples({1, 2, 3, 4, 5}), samples({6, 7, 8, 9, 10}));
  EXPECT_NEAR(five.p, 0.007936507936507936, 1e-12);
  EXPECT_NEAR(five.least, five.p, 1e-12);
}

TEST(MannWhitney, what_is_alike_does_not_differ) {
  EXPECT_EQ(mann_whitney(samples({1, 2, 3}), samples({3, 2, 1})).p, 1);
  EXPECT_EQ(mann_whitney(samples({5, 5}), samples({5})).p, 1);
  EXPECT_EQ(mann_whitney({{5, 100}}, {{5, 100}}).p, 1);
  EXPECT_EQ(mann_whitney({}, samples({5})).p, 1);
}

TEST(Noise, a_few_slow_iterations_leave_the_median_alone) {
  EXPECT_FALSE(noisy(with(1000, 1), 100));
  EXPECT_FALSE(noisy(with(1000, 20), 100));
}

TEST(Noise, a_slow_third_makes_times_doubtful) {
  EXPECT_TRUE(noisy(with(12.1, 34), 100));
  EXPECT_FALSE(noisy(with(11.9, 34), 100));
}

TEST(Noise, a_slow_third_makes_bandwidths_doubtful) {
  EXPECT_TRUE(noisy(with(8, 34), 100));
  EXPECT_FALSE(noisy(with(9, 34), 100));
}

TEST(Noise, few_measurements_tell_nothing) {
  EXPECT_TRUE(noisy(distribution({1, 1, 1, 1, 1, 1, 5, 5, 5, 5}), 10));
  EXPECT_FALSE(noisy(distribution({1, 1, 5}), 3));
}

}  // namespace
}  // namespace fairlead::tools
