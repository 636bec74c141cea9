// SPDX-License-Identifier: Apache-2.0
//
// What the benchmarks of datatypes print: a row for each layout, beside what stands for it without gaps, and
// JSON with the same results and more.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/report.h"

namespace fairlead::tools {

struct LayoutMeasurement {
  std::string name = {};  // of the face or the type; pack's rows go by their block
  uint64_t block = 0;     // pack: bytes of one
  uint64_t bytes = 0;     // without the gaps
  uint64_t blocks = 0;    // how many
  int64_t iterations = 0;
  bool cut_short = false;  // by --timeout
  // pack: packed bytes in the time of a call, or of a copy that moves the same cache lines
  std::optional<Distribution> pack_mb_s = {}, unpack_mb_s = {}, copy_mb_s = {};
  // halo: of an exchange; datatype: of a message
  std::optional<Distribution> latency_us = {}, contiguous_us = {};
  // datatype: over the new types, making and committing one, its first message and its second
  std::optional<Distribution> make_us = {}, first_us = {}, second_us = {};
  std::optional<bool> valid = {};
};

class LayoutReport : public Report {
 public:
  LayoutReport(const BenchArguments& arguments, const Context& context);

  void add(const LayoutMeasurement& measurement);
};

}  // namespace fairlead::tools
