// SPDX-License-Identifier: Apache-2.0
//
// The order of GPUs in which neighbours exchange data fastest: the shortest path through all GPUs, where a
// step costs more the slower its pair is. Bandwidths that differ by less than the noise count as equal; of
// equal orders the first by number is taken, so a machine whose pairs are all alike keeps its own order.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace fairlead::tools::matrix {

// A square of something: of each GPU (row) with each (column).
template <class Value>
class Grid {
 public:
  explicit Grid(size_t side = 0) : side_(side), values_(side * side) {}
  size_t side() const { return side_; }
  Value& at(size_t from, size_t to) { return values_[from * side_ + to]; }
  const Value& at(size_t from, size_t to) const { return values_[from * side_ + to]; }

 private:
  size_t side_;
  std::vector<Value> values_;
};

struct Advice {
  std::vector<size_t> order;  // of GPUs, for ranks in turn
  std::string words;          // one sentence
};
// Pairs that are slower are kept apart as far as that can be. Up to this many GPUs the order is the best
// there is; beyond, each is followed by the one that is nearest of those left.
inline constexpr size_t most_for_best_order = 16;
Advice advise(const Grid<double>& gb_s, const std::string& of_what);

}  // namespace fairlead::tools::matrix
