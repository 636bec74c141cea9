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
  bool (*of)(const BenchArguments& a);
  bool yardstick = false;  // takes one column, in a benchmark of another quantity
};

bool is_copy(const BenchArguments& a) {
  return a.kind->id == Benchmark::copy;
}
bool is_first(const BenchArguments& a) {
  return shows_first(*a.kind);
}
bool is_put_halo(const BenchArguments& a) {
  return a.kind->id == Benchmark::put_halo;
}

constexpr Quantity quantities[] = {
    {"latency_us", "latency", "Latency (us)", &Measurement::latency_us, false,
     [](const BenchArguments& a) {
       return is_copy(a) || (a.kind->one_message() && !is_first(a) && !is_put_halo(a));
     }},
    {"bandwidth_mb_s", "bandwidth", "Bandwidth (MB/s)", &Measurement::bandwidth_mb_s, true,
     [](const BenchArguments& a) { return !a.kind->one_message(); }},
    {"both_ways_mb_s", "bandwidth both ways", "Both ways (MB/s)", &Measurement::both_ways_mb_s, true,
     is_copy},
    {"device_to_host_mb_s", "bandwidth to the host", "To host (MB/s)", &Measurement::device_to_host_mb_s,
     true, is_copy},
    {"host_to_device_mb_s", "bandwidth from the host", "From host (MB/s)", &Measurement::host_to_device_mb_s,
     true, is_copy},
    {"allocate_us", "", "Allocate (us)", &Measurement::allocate_us, false, is_first},
    {"first_us", "", "First (us)", &Measurement::first_us, false, is_first},
    {"second_us", "", "Second (us)", &Measurement::second_us, false, is_first},
    {"later_us", "", "Later (us)", &Measurement::later_us, false, is_first},
    {"slowest_us", "", "Slowest (us)", &Measurement::slowest_us, false, is_first},
    {"put_us", "exchange by puts", "Put (us)", &Measurement::put_us, false, is_put_halo},
    {"sendrecv_us", "exchange by messages", "Sendrecv (us)", &Measurement::sendrecv_us, false, is_put_halo},
    {"raw_us", "the GPU's own time", "Raw (us)", &Measurement::raw_us, false,
     [](const BenchArguments& a) { return a.raw && a.kind->one_message(); }, true},
    {"raw_mb_s", "bandwidth of copies", "Raw (MB/s)", &Measurement::raw_mb_s, true,
     [](const BenchArguments& a) { return a.raw && !a.kind->one_message(); }, true},
};

// Of the first two quantities that the benchmark measures.
double ratio(const BenchArguments& arguments, const Measurement& m, const TableRow& row) {
  std::vector<double> values;
  for (const Quantity& quantity : quantities)
    if (quantity.of(arguments))
      values.push_back(*(m.*quantity.values).*(quantity.bandwidth ? row.bandwidth : row.time));
  return values[1] > 0 ? values[0] / values[1] : 0;
}

std::string_view without_unit(std::string_view heading) {
  return heading.substr(0, heading.find(" ("));
}

// What the columns of a narrow table are in, and what the yardstick is.
const char* units_of(const BenchArguments& a) {
  if (is_copy(a)) return "times in us, bandwidths in MB/s";
  if (is_first(a)) return "times in us";
  if (is_put_halo(a)) return "times in us; ratio: of the puts to MPI_Sendrecv";
  if (!a.raw) return a.kind->one_message() ? "latency in us" : "bandwidth in MB/s";
  if (a.kind->one_word()) return "times in us; raw: an empty kernel, launched and waited for";
  return a.kind->one_message() ? "times in us; raw: the driver's copy between the GPUs, waited for"
                               : "bandwidths in MB/s; raw: of the driver's copies between the GPUs";
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
  if (arguments.kind->id == Benchmark::latency_threads) json()["threads"] = arguments.threads;
  if (arguments.kind->id == Benchmark::partitioned) json()["partitions"] = arguments.partitions;
  if (arguments.kind->id == Benchmark::first) json()["rounds"] = arguments.rounds;
  if (!arguments.kind->one_message()) json()["window"] = arguments.window;
  if (arguments.kind->one_sided()) {
    json()["window_kind"] = arguments.window_kind;
    json()["synchronization"] = arguments.sync;
  }
  if (arguments.kind->combines()) {
    json()["type"] = arguments.element;
    json()["operation"] = arguments.reduction;
  }
  if (table() && arguments.kind->id != Benchmark::first) print_headings();
}

bool MessageReport::narrow() const {
  return arguments_.full || arguments_.kind->id == Benchmark::copy || shows_first(*arguments_.kind) ||
         compares();
}

bool MessageReport::names_rows() const {
  return table_rows(arguments_).size() > 1;
}

std::vector<MessageReport::Column> MessageReport::columns(const TableRow& row, const Measurement* m) const {
  const BenchmarkKind& kind = *arguments_.kind;
  std::vector<Column> all;
  auto number = [&](double value) { return narrow() ? narrow_number(value) : fmt::format("{:.2f}", value); };
  for (const Quantity& quantity : quantities) {
    if (!quantity.of(arguments_)) continue;
    const Distribution d = m ? *(m->*quantity.values) : Distribution{};
    if (arguments_.full && kind.one_quantity() && !quantity.yardstick)
      for (const Statistic& statistic : statistics(quantity.bandwidth))
        all.push_back({statistic.name, number(d.*statistic.value)});
    else
      all.push_back({std::string(narrow() ? without_unit(quantity.heading) : quantity.heading),
                     number(d.*(quantity.bandwidth ? row.bandwidth : row.time))});
  }
  if (compares()) all.push_back({"Ratio", m ? narrow_number(ratio(arguments_, *m, row)) : ""});
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
  if (narrow()) std::cout << "# " << units_of(arguments_) << "\n";
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
    if (!quantity.of(arguments_)) continue;
    const Distribution& d = *(m.*quantity.values);
    row[quantity.key] = to_json(d);
    // The figures of new buffers are few, and meant to differ.
    if (!shows_first(*arguments_.kind))
      doubtful |= noise_.look(fmt::format("{} of {} bytes", quantity.name, m.bytes), d, m.iterations);
  }
  if (compares()) row["ratio"] = ratio(arguments_, m, table_rows(arguments_).front());
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
