// SPDX-License-Identifier: Apache-2.0
//
// What all_pairs prints: a row for each direction of each pair of ranks, and JSON with the same results.

#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "bench/report.h"

namespace fairlead::tools {

struct PairResult {
  int from, to;
  Measurement latency = {}, one_way = {}, both_ways = {};
};

class AllPairsReport {
 public:
  AllPairsReport(const BenchArguments& arguments, const Context& context);
  ~AllPairsReport();

  void add(const PairResult& result);
  // Writes the JSON; exit_problem when received bytes were wrong.
  int finish();

 private:
  bool table() const { return arguments_.json != "-"; }

  BenchArguments arguments_;
  std::unique_ptr<nlohmann::ordered_json> json_;
  NoiseWatch noise_;
  bool valid_ = true;
};

}  // namespace fairlead::tools
