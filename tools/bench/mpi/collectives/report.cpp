// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/collectives/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

namespace fairlead::tools {
namespace {

using Json = nlohmann::ordered_json;

// The part of the pure communication that computation hid; testing is not computing.
double overlap_percent(const CollectiveMeasurement& m) {
  double shown = m.overlap->overall_us - m.overlap->compute_us;
  return m.latency_us.mean > 0 ? std::clamp(100 * (1 - shown / m.latency_us.mean), 0.0, 100.0) : 0;
}

}  // namespace

CollectiveReport::CollectiveReport(const BenchArguments& arguments, const Context& context)
    : Report(arguments, context), ranks_(context.ranks) {
  const CollectiveKind& kind = arguments.collective();
  if (sized()) json()["type"] = arguments.element;
  if (kind.reduces) json()["operation"] = arguments.reduction;
  if (rooted(kind)) json()["root"] = arguments.root_text;
  if (arguments.kind->id == Benchmark::overlap) {
    json()["test_calls"] = arguments.tests;
    json()["target"] = arguments.target;
  }
  if (!table()) return;
  if (sized())
    std::cout << fmt::format("# elements: {}{}{}\n", arguments.element,
                             kind.reduces ? ", operation: " + arguments.reduction : "",
                             rooted(kind) ? ", root: " + arguments.root_text : "");
  if (arguments.computes_on_gpu())
    std::cout << fmt::format("# computation: {}a kernel of {} blocks of {} threads\n",
                             arguments.target == "both" ? "the CPU, and " : "", compute_blocks,
                             compute_threads);
  if (arguments.full)
    std::cout << (bandwidths()                               ? "# times in us, bandwidths in GB/s\n"
                  : arguments.kind->id == Benchmark::overlap ? "# times in us, overlap in %\n"
                                                             : "# times in us\n");
  std::cout << line(sized() ? "# Size" : "#", columns({.overlap = Overlap{}}), &Column::heading) << std::endl;
}

bool CollectiveReport::sized() const {
  return arguments_.collective().sender != Owner::nobody;
}

bool CollectiveReport::bandwidths() const {
  return sized() && arguments_.kind->id == Benchmark::collective;
}

std::vector<CollectiveReport::Column> CollectiveReport::columns(const CollectiveMeasurement& m) const {
  const bool full = arguments_.full, overlap = arguments_.kind->id == Benchmark::overlap;
  auto number = [&](double value) { return full ? narrow_number(value) : fmt::format("{:.2f}", value); };
  std::vector<Column> all;
  if (overlap && full)
    all = {{"Overall", number(m.overlap->overall_us)},
           {"Compute", number(m.overlap->compute_us)},
           {"Start", number(m.overlap->start_us)},
           {"Test", number(m.overlap->test_us)},
           {"Wait", number(m.overlap->wait_us)},
           {"Pure", number(m.latency_us.mean)},
           {"Min", number(m.least_us)},
           {"Max", number(m.greatest_us)}};
  else if (overlap)
    all = {{"Overall (us)", number(m.overlap->overall_us)},
           {"Compute (us)", number(m.overlap->compute_us)},
           {"Pure (us)", number(m.latency_us.mean)}};
  else if (full)
    all = {{"Avg", number(m.latency_us.mean)},
           {"Min", number(m.least_us)},
           {"Max", number(m.greatest_us)},
           {"P50", number(m.latency_us.p50)},
           {"P99", number(m.latency_us.p99)}};
  else
    all = {{"Latency (us)", number(m.latency_us.p50)}};
  if (overlap) all.push_back({full ? "Overlap" : "Overlap (%)", number(overlap_percent(m))});
  if (arguments_.first) all.insert(all.begin(), {full ? "First" : "First (us)", number(m.first_us)});
  if (full) all.push_back({"Calls", std::to_string(m.iterations), Cell::word});
  if (bandwidths()) {
    const CollectiveKind& kind = arguments_.collective();
    double seconds = m.latency_us.p50 / 1e6;
    all.push_back(
        {full ? "algbw" : "algbw (GB/s)", number(algorithm_bandwidth(kind, m.bytes, ranks_, seconds))});
    all.push_back({full ? "busbw" : "busbw (GB/s)", number(bus_bandwidth(kind, m.bytes, ranks_, seconds))});
  }
  if (arguments_.validate)
    all.push_back({full ? "Valid" : "Validation", m.wrong ? "Fail" : "Pass", Cell::word});
  return all;
}

// Not wider than a terminal of 80 columns.
std::string CollectiveReport::line(const std::string& first, const std::vector<Column>& all,
                                   std::string Column::*text) const {
  const int begin = sized() ? size_width() : 1;
  const int width = std::min(value_width, (80 - begin) / static_cast<int>(all.size()));
  std::string line = fmt::format("{:<{}}", first, begin);
  for (const Column& column : all)
    line += fmt::format("{:>{}}", column.*text,
                        arguments_.full ? narrow_width(column.heading, column.cell) : width);
  return line;
}

void CollectiveReport::add(const CollectiveMeasurement& m) {
  Json row;
  if (sized()) row["bytes"] = m.bytes;
  row["iterations"] = m.iterations;
  row["first_us"] = m.first_us;
  row["latency_us"] = to_json(m.latency_us);
  row["rank_mean_us"] = {{"min", m.least_us}, {"max", m.greatest_us}};
  if (m.overlap) {
    row["overall_us"] = m.overlap->overall_us;
    row["compute_us"] = m.overlap->compute_us;
    row["start_us"] = m.overlap->start_us;
    row["test_us"] = m.overlap->test_us;
    row["wait_us"] = m.overlap->wait_us;
    row["overlap_percent"] = overlap_percent(m);
  } else if (sized()) {
    double seconds = m.latency_us.p50 / 1e6;
    row["algbw_gb_s"] = algorithm_bandwidth(arguments_.collective(), m.bytes, ranks_, seconds);
    row["busbw_gb_s"] = bus_bandwidth(arguments_.collective(), m.bytes, ranks_, seconds);
  }
  if (m.wrong) row["wrong"] = {{"rank", m.wrong->rank}, {"byte", m.wrong->byte}};
  add_row(std::move(row), arguments_.validate ? std::optional(!m.wrong) : std::nullopt,
          noise_.look(sized() ? fmt::format("{} bytes", m.bytes) : "the time", m.latency_us, m.iterations));
  if (m.wrong)
    std::cerr << fmt::format("fairlead bench: {}: size {}: rank {} has wrong data from byte {} on\n",
                             arguments_.kind->name, m.bytes, m.wrong->rank, m.wrong->byte);
  if (!table()) return;
  // A row at a time: some sizes take long.
  std::cout << line(sized() ? std::to_string(m.bytes) : "", columns(m), &Column::text) << std::endl;
}

void CollectiveReport::leave_out(const std::string& line) {
  json()["left_out"].push_back(line);
  if (table()) std::cout << fmt::format("# skipped: {}", line) << std::endl;
}

}  // namespace fairlead::tools
