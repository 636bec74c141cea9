// SPDX-License-Identifier: Apache-2.0
//
// Tuning: rules that say which algorithm of a collective is fastest for how many ranks and bytes, as text and
// as data. A file has one rule in a line,
//
//   # collective  algorithm  ranks  bytes
//   allreduce     oneshot    2..4   ..64k
//   allreduce     sliced     ..     ..
//
// of which the first that fits a call counts. Ranges are N, LOW.., ..HIGH, LOW..HIGH or .., both ends
// included. Ranks are those of the communicator; bytes are those of the largest buffer that a rank brings:
// the message, the vector, or all blocks together. What no rule of a file fits is left to the shipped ones.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coll/algorithms.h"

namespace fairlead::coll {

struct Range {
  uint64_t low = 0, high = UINT64_MAX;

  bool holds(uint64_t value) const { return low <= value && value <= high; }
  bool operator==(const Range&) const = default;
};

struct Rule {
  Algorithm algorithm;
  Range ranks, bytes;

  bool operator==(const Rule&) const = default;
};
using Rules = std::vector<Rule>;

// Appends the rules of `text` and returns nothing; or says what is wrong, beginning with "FILE:LINE: ", and
// what is accepted, and appends none.
std::string parse_rules(const std::string& text, const std::string& file, Rules* into);
// The same for a file, which may not be there.
std::string read_rules(const std::string& file, Rules* into);

// A line that parse_rules() reads as this rule.
std::string to_text(const Rule& rule);

// Measured on H200. Some rule of them fits every call.
const Rules& shipped_rules();

}  // namespace fairlead::coll
