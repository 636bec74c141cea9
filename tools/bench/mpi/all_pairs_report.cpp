// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/all_pairs_report.h"

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
                              {"both_ways_mb_s", "Both (MB/s)", &PairResult::both_ways, true}};

const Distribution& values_of(const PairResult& result, const Column& column) {
  const Measurement& m = result.*column.of;
  return column.bandwidth ? *m.bandwidth_mb_s : *m.latency_us;
}

}  // namespace

AllPairsReport::AllPairsReport(const BenchArguments& arguments, const Context& context)
    : arguments_(arguments),
      json_(std::make_unique<Json>(context_json(arguments, context))),
      noise_(arguments) {
  check_json_target(arguments.json);
  (*json_)["window"] = arguments.window;
  (*json_)["results"] = Json::array();
  if (!table()) return;
  print_context(arguments, context);
  print_statistics(arguments);
  std::cout << fmt::format("# latency of {} bytes, bandwidth of {} bytes\n{:<12}{:>6}", arguments.smallest,
                           arguments.largest, "# From", "To");
  if (arguments.full) std::cout << fmt::format("{:>{}}", "", row_name_width);
  for (const Column& column : columns) std::cout << fmt::format("{:>16}", column.heading);
  if (arguments.validate) std::cout << fmt::format("{:>8}", "Valid");
  std::cout << std::endl;
}

AllPairsReport::~AllPairsReport() = default;

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
  valid_ = valid_ && valid;
  if (doubtful) row["doubtful"] = true;
  if (arguments_.validate) row["valid"] = valid;
  (*json_)["results"].push_back(row);
  if (!table()) return;
  for (const TableRow& of_pair : table_rows(arguments_)) {
    std::string line = fmt::format("{:<12}{:>6}", r.from, r.to);
    if (arguments_.full) line += fmt::format("{:>{}}", of_pair.name, row_name_width);
    for (const Column& column : columns)
      line += fmt::format("{:>16.2f}",
                          values_of(r, column).*(column.bandwidth ? of_pair.bandwidth : of_pair.time));
    if (arguments_.validate) line += fmt::format("{:>8}", valid ? "Pass" : "Fail");
    std::cout << line << std::endl;
  }
}

int AllPairsReport::finish() {
  if (arguments_.validate) (*json_)["valid"] = valid_;
  if (!arguments_.json.empty()) write_json(arguments_.json, *json_);
  if (table()) noise_.warn();
  return valid_ ? exit_success : exit_problem;
}

}  // namespace fairlead::tools
