// SPDX-License-Identifier: Apache-2.0

#include "matrix/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

namespace fairlead::tools::matrix {
namespace {

constexpr double alike = 1.15;  // faster by less than this is no faster

using Costs = Grid<int64_t>;

Costs costs_of(const Grid<double>& gb_s) {
  double best = 0;
  for (size_t i = 0; i < gb_s.side(); ++i)
    for (size_t j = 0; j < gb_s.side(); ++j)
      if (i != j) best = std::max(best, gb_s.at(i, j));
  Costs costs(gb_s.side());
  for (size_t i = 0; i < gb_s.side(); ++i)
    for (size_t j = 0; j < gb_s.side(); ++j) {
      double pair = std::max(std::min(gb_s.at(i, j), gb_s.at(j, i)), best / 1e4);
      double levels = best > 0 ? std::round(std::log(best / pair) / std::log(alike)) : 0;
      costs.at(i, j) = std::llround(1000 * std::pow(alike, levels));
    }
  return costs;
}

// rest[seen][last]: the least that the way through all others costs, when those of the bits `seen` are
// behind.
std::vector<size_t> best_order(const Costs& costs) {
  const size_t n = costs.side(), all = (size_t{1} << n) - 1;
  std::vector<int64_t> rest((all + 1) * n, 0);
  auto cost = [&](size_t seen, size_t last, size_t next) {
    return costs.at(last, next) + rest[(seen | size_t{1} << next) * n + next];
  };
  for (size_t seen = all; seen-- > 0;)
    for (size_t last = 0; last < n; ++last) {
      int64_t least = std::numeric_limits<int64_t>::max();
      for (size_t next = 0; next < n; ++next)
        if (!(seen >> next & 1)) least = std::min(least, cost(seen, last, next));
      rest[seen * n + last] = least;
    }
  size_t last = 0;
  for (size_t first = 1; first < n; ++first)
    if (rest[(size_t{1} << first) * n + first] < rest[(size_t{1} << last) * n + last]) last = first;
  std::vector<size_t> order = {last};
  for (size_t seen = size_t{1} << last; seen != all; seen |= size_t{1} << last) {
    size_t taken = n;
    for (size_t next = 0; next < n; ++next)
      if (!(seen >> next & 1) && (taken == n || cost(seen, last, next) < cost(seen, last, taken)))
        taken = next;
    order.push_back(last = taken);
  }
  return order;
}

std::vector<size_t> greedy_order(const Costs& costs) {
  std::vector<size_t> left(costs.side() - 1), order = {0};
  std::iota(left.begin(), left.end(), 1);
  while (!left.empty()) {
    auto nearest = std::min_element(left.begin(), left.end(), [&](size_t a, size_t b) {
      return costs.at(order.back(), a) < costs.at(order.back(), b);
    });
    order.push_back(*nearest);
    left.erase(nearest);
  }
  return order;
}

}  // namespace

Advice advise(const Grid<double>& gb_s, const std::string& of_what) {
  Costs costs = costs_of(gb_s);
  Advice advice;
  advice.order = gb_s.side() <= most_for_best_order ? best_order(costs) : greedy_order(costs);

  auto slower_way = [&](size_t i, size_t j) { return std::min(gb_s.at(i, j), gb_s.at(j, i)); };
  size_t slow_a = 0, slow_b = 1;
  double fastest = 0;
  bool same = true;
  for (size_t i = 0; i < gb_s.side(); ++i)
    for (size_t j = i + 1; j < gb_s.side(); ++j) {
      if (slower_way(i, j) < slower_way(slow_a, slow_b)) slow_a = i, slow_b = j;
      fastest = std::max(fastest, slower_way(i, j));
      same = same && costs.at(i, j) == costs.at(0, 1);
    }
  double slowest = slower_way(slow_a, slow_b), between = fastest;
  for (size_t i = 1; i < advice.order.size(); ++i)
    between = std::min(between, slower_way(advice.order[i - 1], advice.order[i]));
  std::string range = fmt::format("{:.3g} to {:.3g} GB/s by {}", slowest, fastest, of_what);
  if (gb_s.side() == 2)
    advice.words = fmt::format("The two GPUs move {:.3g} GB/s to each other by {}.", slowest, of_what);
  else if (same)
    advice.words = fmt::format("All pairs are alike ({}): neighbouring ranks may sit on any GPUs.", range);
  else
    advice.words = fmt::format(
        "Place neighbouring ranks on GPUs {} in this order: {:.3g} GB/s or more from one to the next by {}; "
        "the "
        "slowest pair, {} and {}, has {:.3g}.",
        fmt::join(advice.order, ","), between, of_what, slow_a, slow_b, slowest);
  return advice;
}

}  // namespace fairlead::tools::matrix
