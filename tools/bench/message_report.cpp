// SPDX-License-Identifier: Apache-2.0

#include "bench/message_report.h"

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

namespace fairlead::tools {
namespace {

using Json = nlohmann::ordered_json;

bool shows_first(const BenchmarkKind& kind) {
  return kind.id == Benchmark::first;
}

// A column, or several with -f; each in the rows of the benchmarks that measure it.
struct Quantity {
  const char* key;
  const char* name;
  const char* heading;
  std::optional<Distribution> Measurement::*values;
  bool bandwidth;
  bool (*of)(const BenchmarkKind& kind);
};
constexpr Quantity quantities[] = {
    {"latency_us", "latency", "Latency (us)", &Measurement::latency_us, false,
     [](const BenchmarkKind& kind) {
       return kind.id == Benchmark::copy || (kind.one_message() && kind.id != Benchmark::first);
     }},
    {"bandwidth_mb_s", "bandwidth", "Bandwidth (MB/s)", &Measurement::bandwidth_mb_s, true,
     [](const BenchmarkKind& kind) { return !kind.one_message(); }},
    {"both_ways_mb_s", "bandwidth both ways", "Both ways (MB/s)", &Measurement::both_ways_mb_s, true,
     [](const BenchmarkKind& kind) { return kind.id == Benchmark::copy; }},
    {"device_to_host_mb_s", "bandwidth to the host", "To host (MB/s)", &Measurement::device_to_host_mb_s,
     true, [](const BenchmarkKind& kind) { return kind.id == Benchmark::copy; }},
    {"host_to_device_mb_s", "bandwidth from the host", "From host (MB/s)", &Measurement::host_to_device_mb_s,
     true, [](const BenchmarkKind& kind) { return kind.id == Benchmark::copy; }},
    {"allocate_us", "", "Allocate (us)", &Measurement::allocate_us, false, shows_first},
    {"first_us", "", "First (us)", &Measurement::first_us, false, shows_first},
    {"second_us", "", "Second (us)", &Measurement::second_us, false, shows_first},
    {"later_us", "", "Later (us)", &Measurement::later_us, false, shows_first},
    {"slowest_us", "", "Slowest (us)", &Measurement::slowest_us, false, shows_first},
};

std::string_view without_unit(std::string_view heading) {
  return heading.substr(0, heading.find(" ("));
}

struct Statistic {
  const char* name;
  double Distribution::*value;
};
std::vector<Statistic> statistics(bool bandwidth) {
  return {{"Avg", &Distribution::mean},
          {"Min", &Distribution::min},
          {"P50", &Distribution::p50},
          bandwidth ? Statistic{"P1", &Distribution::p1} : Statistic{"P99", &Distribution::p99},
          {"Max", &Distribution::max}};
}

}  // namespace

MessageReport::MessageReport(const BenchArguments& arguments, const Context& context)
    : Report(arguments, context) {
  if (arguments.fresh) json()["fresh"] = true;
  if (arguments.probe != Probe::none) json()["probe"] = arguments.probe == Probe::probe ? "probe" : "mprobe";
  if (arguments.offset > 0) json()["offset"] = arguments.offset;
  if (arguments.kind->id == Benchmark::partitioned) json()["partitions"] = arguments.partitions;
  if (arguments.kind->id == Benchmark::first) json()["rounds"] = arguments.rounds;
  if (!arguments.kind->one_message()) json()["window"] = arguments.window;
  if (table() && arguments.kind->id != Benchmark::first) print_headings();
}

bool MessageReport::narrow() const {
  return arguments_.full || arguments_.kind->id == Benchmark::copy || shows_first(*arguments_.kind);
}

bool MessageReport::names_rows() const {
  return table_rows(arguments_).size() > 1;
}

std::vector<MessageReport::Column> MessageReport::columns(const TableRow& row, const Measurement* m) const {
  const BenchmarkKind& kind = *arguments_.kind;
  std::vector<Column> all;
  auto number = [&](double value) { return narrow() ? narrow_number(value) : fmt::format("{:.2f}", value); };
  for (const Quantity& quantity : quantities) {
    if (!quantity.of(kind)) continue;
    const Distribution d = m ? *(m->*quantity.values) : Distribution{};
    if (arguments_.full && kind.one_quantity())
      for (const Statistic& statistic : statistics(quantity.bandwidth))
        all.push_back({statistic.name, number(d.*statistic.value)});
    else
      all.push_back({std::string(narrow() ? without_unit(quantity.heading) : quantity.heading),
                     number(d.*(quantity.bandwidth ? row.bandwidth : row.time))});
  }
  if (kind.id == Benchmark::multi_bandwidth)
    all.push_back(
        {"Messages/s", m ? fmt::format("{:.0f}", m->bandwidth_mb_s->p50 * 1e6 / double(m->bytes)) : ""});
  if (shows_first(kind)) all.push_back({"At message", m ? std::to_string(m->slowest) : ""});
  if (arguments_.validate)
    all.push_back(
        {narrow() ? "Valid" : "Validation", m && m->valid.value_or(false) ? "Pass" : "Fail", Cell::word});
  return all;
}

void MessageReport::print_headings() const {
  if (narrow()) {
    const BenchmarkKind& kind = *arguments_.kind;
    std::cout << (kind.id == Benchmark::copy ? "# times in us, bandwidths in MB/s\n"
                  : shows_first(kind)        ? "# times in us\n"
                  : kind.one_message()       ? "# latency in us\n"
                                             : "# bandwidth in MB/s\n");
  }
  std::cout << fmt::format("{:<{}}", "# Size", narrow() ? narrow_size_width : size_width);
  if (names_rows()) std::cout << fmt::format("{:>{}}", "", row_name_width);
  for (const Column& column : columns(table_rows(arguments_).front(), nullptr))
    std::cout << fmt::format("{:>{}}", column.heading,
                             narrow() ? narrow_width(column.heading, column.cell) : value_width);
  std::cout << std::endl;
}

void MessageReport::note_job_first(double us) {
  json()["job_first_us"] = us;
  if (!table()) return;
  std::cout << fmt::format("# first message of the job, {} byte{}: {:.2f} us\n", arguments_.smallest,
                           arguments_.smallest == 1 ? "" : "s", us);
  print_headings();
}

void MessageReport::add(const Measurement& m) {
  Json row = {{"bytes", m.bytes}, {"iterations", m.iterations}};
  bool doubtful = false;
  for (const Quantity& quantity : quantities) {
    if (!quantity.of(*arguments_.kind)) continue;
    const Distribution& d = *(m.*quantity.values);
    row[quantity.key] = to_json(d);
    // The figures of new buffers are few, and meant to differ.
    if (!shows_first(*arguments_.kind))
      doubtful |= noise_.look(fmt::format("{} of {} bytes", quantity.name, m.bytes), d, m.iterations);
  }
  if (shows_first(*arguments_.kind)) row["slowest"] = m.slowest;
  add_row(std::move(row), m.valid, doubtful);
  if (!table()) return;
  for (const TableRow& of_size : table_rows(arguments_)) {
    std::cout << fmt::format("{:<{}}", m.bytes, narrow() ? narrow_size_width : size_width);
    if (names_rows()) std::cout << fmt::format("{:>{}}", of_size.name, row_name_width);
    for (const Column& column : columns(of_size, &m))
      std::cout << fmt::format("{:>{}}", column.text,
                               narrow() ? narrow_width(column.heading, column.cell) : value_width);
    std::cout << std::endl;  // a row at a time: some sizes take long
  }
}

}  // namespace fairlead::tools
