// SPDX-License-Identifier: Apache-2.0
//
// Tuning rules, as text and as data. A rule states which algorithm of a collective is fastest for a range of
// ranks and bytes. A file has one rule per line:
//
//   # collective  algorithm  ranks  bytes
//   allreduce     oneshot    2..4   ..64k
//   allreduce     sliced     ..     ..
//
// The first rule that fits a call applies. Ranges are N, LOW.., ..HIGH, LOW..HIGH or .., both ends included.
// Ranks are those of the communicator. Bytes are those of the largest buffer that a rank passes: the message,
// the vector, or all blocks together. If no rule of a file fits, the shipped rules apply.

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

// Appends the rules of `text` and returns an empty string. On an error it appends nothing, and returns what
// is wrong, beginning with "FILE:LINE: ", and what is accepted.
std::string parse_rules(const std::string& text, const std::string& file, Rules* into);
// The same for the content of a file. A file that cannot be read is an error.
std::string read_rules(const std::string& file, Rules* into);

// A line that parse_rules() reads as this rule.
std::string to_text(const Rule& rule);

// Measured on H200 GPUs. At least one of these rules fits every call.
const Rules& shipped_rules();

}  // namespace fairlead::coll
