// SPDX-License-Identifier: Apache-2.0
//
// Which GPUs neighbouring ranks belong on, by what pairs of GPUs were measured to do.

#include "matrix/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

using fairlead::tools::matrix::Advice;
using fairlead::tools::matrix::advise;
using fairlead::tools::matrix::Grid;
using fairlead::tools::matrix::most_for_best_order;

namespace {

using Order = std::vector<size_t>;

Advice of(size_t gpus, const std::function<double(size_t, size_t)>& gb_s) {
  Grid<double> grid(gpus);
  for (size_t i = 0; i < gpus; ++i)
    for (size_t j = 0; j < gpus; ++j)
      if (i != j) grid.at(i, j) = gb_s(i, j);
  return advise(grid, "messages");
}

Order in_turn(size_t gpus) {
  Order order(gpus);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

}  // namespace

TEST(placement, pairs_that_are_alike_keep_their_order) {
  Advice advice = of(8, [](size_t i, size_t j) { return 380 + double((i * 7 + j * 5) % 11); });
  EXPECT_EQ(advice.order, in_turn(8));
  EXPECT_NE(advice.words.find("All pairs are alike (380 to 38"), std::string::npos) << advice.words;
}

TEST(placement, bridged_pairs_stay_together) {
  // 0-2 and 1-3 have a bridge, the others PCIe.
  Advice advice = of(4, [](size_t i, size_t j) { return i % 2 == j % 2 ? 200.0 : 20.0; });
  EXPECT_EQ(advice.order, (Order{0, 2, 1, 3}));
}

TEST(placement, a_ring_is_followed) {
  // Each GPU has fast links to two others only: 0-3-1-4-2-5-0.
  const Order ring = {0, 3, 1, 4, 2, 5};
  auto place = [&](size_t gpu) { return size_t(std::find(ring.begin(), ring.end(), gpu) - ring.begin()); };
  Advice advice = of(6, [&](size_t i, size_t j) {
    size_t apart = (place(i) + 6 - place(j)) % 6;
    return apart == 1 || apart == 5 ? 100.0 : 10.0;
  });
  EXPECT_EQ(advice.order, ring);
  EXPECT_NE(advice.words.find("GPUs 0,3,1,4,2,5 in this order: 100 GB/s or more"), std::string::npos)
      << advice.words;
}

TEST(placement, the_slower_direction_counts) {
  Advice advice = of(3, [](size_t i, size_t j) { return i == 0 && j == 1 ? 5.0 : 50.0; });
  EXPECT_EQ(advice.order, (Order{0, 2, 1}));
  EXPECT_NE(advice.words.find("slowest pair, 0 and 1, has 5"), std::string::npos) << advice.words;
}

TEST(placement, a_pair_that_could_not_be_measured_is_kept_apart) {
  EXPECT_EQ(of(3, [](size_t i, size_t j) { return i + j == 1 ? 0.0 : 50.0; }).order, (Order{0, 2, 1}));
  EXPECT_EQ(of(3, [](size_t, size_t) { return 0.0; }).order, in_turn(3));
}

TEST(placement, many_gpus) {
  const size_t gpus = most_for_best_order + 8;
  Advice advice = of(gpus, [](size_t i, size_t j) { return i / 2 == j / 2 ? 100.0 : 10.0; });
  EXPECT_EQ(advice.order, in_turn(gpus));
}
