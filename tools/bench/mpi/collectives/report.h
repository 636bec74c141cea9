// SPDX-License-Identifier: Apache-2.0
//
// What the collective benchmarks print: the columns of the OSU micro-benchmarks' collectives with bandwidths
// as in nccl-tests, and JSON with the same results.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/report.h"

namespace fairlead::tools {

// Means over the ranks, of one call each.
struct Overlap {
  double overall_us = 0, compute_us = 0, start_us = 0, test_us = 0, wait_us = 0;
};

struct WrongData {
  int rank;  // the first that has any
  int64_t byte;
};

struct CollectiveMeasurement {
  uint64_t bytes = 0;
  int64_t iterations = 0;
  Distribution latency_us = {};          // of the means over the ranks; of the pure communication
  double least_us = 0, greatest_us = 0;  // mean of a rank
  double first_us = 0;                   // of the first call, in the slowest rank
  std::optional<Overlap> overlap = {};   // nonblocking ones
  std::optional<WrongData> wrong = {};   // with validation
};

class CollectiveReport : public Report {
 public:
  CollectiveReport(const BenchArguments& arguments, const Context& context);

  void add(const CollectiveMeasurement& measurement);
  void leave_out(const std::string& line);

 private:
  struct Column {
    std::string heading;
    std::string text;
    Cell cell = Cell::number;
  };
  std::string line(const std::string& first, const std::vector<Column>& all, std::string Column::*text) const;
  int size_width() const { return arguments_.full ? narrow_size_width : tools::size_width; }
  bool sized() const;
  bool bandwidths() const;
  std::vector<Column> columns(const CollectiveMeasurement& m) const;

  int ranks_;
};

}  // namespace fairlead::tools
