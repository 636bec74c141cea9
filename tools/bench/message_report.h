// SPDX-License-Identifier: Apache-2.0
//
// The report of the benchmarks of messages, of one-sided accesses and of `copy`: a row for each size.

#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/report.h"

namespace fairlead::tools {

struct Measurement {
  uint64_t bytes = 0;
  int64_t iterations = 0;
  std::optional<Distribution> latency_us = {};
  std::optional<Distribution> bandwidth_mb_s = {};
  // copy: between pinned host memory and the device
  std::optional<Distribution> both_ways_mb_s = {};
  std::optional<Distribution> device_to_host_mb_s = {};
  std::optional<Distribution> host_to_device_mb_s = {};
  // first: over the rounds; `slowest` is the message after the second whose median is greatest
  std::optional<Distribution> allocate_us = {}, first_us = {}, second_us = {}, later_us = {}, slowest_us = {};
  int64_t slowest = 0;  // counted from 1
  // one-sided, with --raw: what the GPU itself takes; put_halo: the exchange by puts, and by MPI_Sendrecv
  std::optional<Distribution> raw_us = {}, raw_mb_s = {}, put_us = {}, sendrecv_us = {};
  std::optional<bool> valid = {};
};

class MessageReport : public Report {
 public:
  MessageReport(const BenchArguments& arguments, const Context& context);

  // first: what the first message of the job takes, before all rows.
  void note_job_first(double us);
  void add(const Measurement& measurement);

 private:
  struct Column {
    std::string heading, text;
    Cell cell = Cell::number;
  };
  // Two quantities whose ratio is shown.
  bool compares() const { return arguments_.raw || arguments_.kind->id == Benchmark::put_halo; }
  // Of one row; headings alone where there is no measurement.
  std::vector<Column> columns(const TableRow& row, const Measurement* m) const;
  bool narrow() const;
  bool names_rows() const;
  void print_headings() const;
};

}  // namespace fairlead::tools
