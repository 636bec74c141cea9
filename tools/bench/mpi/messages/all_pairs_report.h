// SPDX-License-Identifier: Apache-2.0
//
// What all_pairs prints: a row for each direction of each pair of ranks, and JSON with the same results.

#pragma once

#include "bench/message_report.h"

namespace fairlead::tools {

struct PairResult {
  int from, to;
  Measurement latency = {}, one_way = {}, both_ways = {};
};

class AllPairsReport : public Report {
 public:
  AllPairsReport(const BenchArguments& arguments, const Context& context);

  void add(const PairResult& result);
};

}  // namespace fairlead::tools
