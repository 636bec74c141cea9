// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/messages/all_pairs_report.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>

namespace fairlead::tools {
namespace {

using Json = nlohmann::ordered_json;

struct Column {
  const char* key;
  const char* heading;
  Measurement PairResult::*of;
  bool bandwidth;
};
constexpr Column columns[] = {{"latency_us", "Latency (us)", &PairResult::latency, false},
                              {"bandwidth_mb_s", "One way (MB/s)", &PairResult::one_way, true},
                              {"both_ways_mb_s", "Both ways (MB/s)", &PairResult::both_ways, true}};

// 80 columns, with -f and -c.
constexpr int from_width = 8, to_width = 5, valid_width = 7;

const Distribution& values_of(const PairResult& result, const Column& column) {
  const Measurement& m = result.*column.of;
  return column.bandwidth ? *m.bandwidth_mb_s : *m.latency_us;
}

}  // namespace

AllPairsReport::AllPairsReport(const BenchArguments& arguments, const Context& context)
    : Report(arguments, context) {
  json()["window"] = arguments.window;
  if (!table()) return;
  std::cout << fmt::format("# latency of {} bytes, bandwidth of {} bytes\n{:<{}}{:>{}}", arguments.smallest,
                           arguments.largest, "# From", from_width, "To", to_width);
  if (arguments.full) std::cout << fmt::format("{:>{}}", "", row_name_width);
  for (const Column& column : columns) std::cout << fmt::format("{:>{}}", column.heading, value_width);
  if (arguments.validate) std::cout << fmt::format("{:>{}}", "Valid", valid_width);
  std::cout << std::endl;
}

void AllPairsReport::add(const PairResult& r) {
  bool valid = true, doubtful = false;
  Json row = {{"from", r.from}, {"to", r.to}, {"latency_bytes", r.latency.bytes}, {"bytes", r.one_way.bytes}};
  for (const Column& column : columns) {
    const Measurement& m = r.*column.of;
    const Distribution& d = values_of(r, column);
    valid = valid && m.valid.value_or(true);
    row[column.key] = to_json(d);
    doubtful |= noise_.look(fmt::format("{} {} -> {}", column.heading, r.from, r.to), d, m.iterations);
  }
  add_row(std::move(row), arguments_.validate ? std::optional(valid) : std::nullopt, doubtful);
  if (!table()) return;
  for (const TableRow& of_pair : table_rows(arguments_)) {
    std::string line = fmt::format("{:<{}}{:>{}}", r.from, from_width, r.to, to_width);
    if (arguments_.full) line += fmt::format("{:>{}}", of_pair.name, row_name_width);
    for (const Column& column : columns)
      line += fmt::format("{:>{}.2f}",
                          values_of(r, column).*(column.bandwidth ? of_pair.bandwidth : of_pair.time),
                          value_width);
    if (arguments_.validate) line += fmt::format("{:>{}}", valid ? "Pass" : "Fail", valid_width);
    std::cout << line << std::endl;
  }
}

}  // namespace fairlead::tools
