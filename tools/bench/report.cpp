// SPDX-License-Identifier: Apache-2.0

#include "bench/report.h"

#include <fairlead/device.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bench/buffer.h"
#include "bench/machine.h"
#include "common/files.h"
#include "device/runtime.h"

namespace fairlead::tools {
namespace {

using Json = nlohmann::ordered_json;

Json hardware(const BenchArguments& arguments) {
  auto gpus = Json::array();
  if (provider_of(arguments) != "none")
    for (int device = 0; device < fairlead_device_count(); ++device)
      gpus.push_back(fairlead_device_name(device));
  return {{"cpu", cpu_model()},
          {"logical_cpus", logical_cpus()},
          {"memory_bytes", memory_bytes()},
          {"gpus", gpus}};
}

std::string place_name(const std::string& letter) {
  return describe(place_of(letter[0])) + " (" + letter + ")";
}

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

std::string provider_of(const BenchArguments& arguments) {
  return arguments.needs_device() || !arguments.device.empty() ? fairlead_device_provider() : "none";
}

void check_json_target(const std::string& where) {
  if (!where.empty() && where != "-") check_file_target("--json", where);
}

void write_json(const std::string& where, const nlohmann::ordered_json& json) {
  std::string text = json.dump(2) + "\n";
  if (where == "-") {
    std::cout << text << std::flush;
    return;
  }
  std::ofstream file(where);
  file << text;
  if (!file.flush())
    throw Failure(exit_problem, fmt::format("--json: cannot write {}: {}", where, std::strerror(errno)));
}

Json to_json(const Distribution& d) {
  return {{"mean", d.mean}, {"min", d.min}, {"p1", d.p1},   {"p25", d.p25},
          {"p50", d.p50},   {"p75", d.p75}, {"p99", d.p99}, {"max", d.max}};
}

Json context_json(const BenchArguments& arguments, const Context& context) {
  std::string provider = provider_of(arguments);
  Json json = {{"schema", 1},
               {"benchmark", arguments.kind->name},
               {"command", arguments.command},
               {"date", utc_date()},
               {"fairlead", FAIRLEAD_VERSION},
               {"preloaded", context.preloaded},
               {"mpi", {{"abi", context.mpi_abi}, {"library", context.mpi_library}}},
               {"via", context.via},
               {"provider", provider},
               {"ranks", context.ranks},
               {"devices", context.devices},
               {"hardware", hardware(arguments)}};
  if (device::Runtime* runtime = provider == "none" ? nullptr : device::runtime())
    json["driver"] = runtime->version();
  if (!context.mpi_abi.empty()) json["placement"] = arguments.placement;
  return json;
}

void print_context(const BenchArguments& arguments, const Context& context) {
  std::cout << fmt::format("# fairlead bench {} {}\n", arguments.kind->name, FAIRLEAD_VERSION);
  std::cout << fmt::format("# command: {}\n", arguments.command);
  if (!context.mpi_abi.empty()) {
    std::cout << fmt::format("# MPI: {} ({}), {} rank{}, Fairlead {}\n", context.mpi_library, context.mpi_abi,
                             context.ranks, context.ranks == 1 ? "" : "s",
                             context.preloaded ? "loaded" : "not loaded");
    auto [first, second] = owner_names(*arguments.kind);
    if (arguments.kind->collective != Collective::barrier)
      std::cout << fmt::format("# {}: {}, {}: {}\n", first, place_name(arguments.placement[0]), second,
                               place_name(arguments.placement[1]));
    if (arguments.kind->one_sided())
      std::cout << fmt::format("# window by MPI_Win_{}, synchronization: {}\n",
                               arguments.window_kind == "dynamic" ? "create_dynamic" : arguments.window_kind,
                               arguments.sync);
    if (arguments.kind->combines())
      std::cout << fmt::format("# elements: {}, operation: {}\n", arguments.element, arguments.reduction);
  }
  if (context.via != "MPI") std::cout << fmt::format("# via: {}\n", context.via);
  std::string provider = provider_of(arguments);
  std::cout << fmt::format("# provider: {}", provider);
  if (provider != "none")
    std::cout << fmt::format(", {}, devices {}", fairlead_device_name(0), context.devices);
  std::cout << "\n";
}

std::vector<TableRow> table_rows(const BenchArguments& arguments) {
  std::vector<TableRow> rows = {{"P50", &Distribution::p50, &Distribution::p50}};
  if (arguments.full && !arguments.kind->one_quantity())
    rows.push_back({shows_first(*arguments.kind) ? "P99" : "slow", &Distribution::p99, &Distribution::p1});
  return rows;
}

int narrow_width(std::string_view heading, Cell cell) {
  return std::max(cell == Cell::number ? 8 : 0, static_cast<int>(heading.size()) + 2);
}

std::string narrow_number(double value) {
  return fmt::format("{:.{}f}", value, value < 9999.995 ? 2 : value < 99999.95 ? 1 : 0);
}

void print_statistics(const BenchArguments& arguments) {
  const BenchmarkKind& kind = *arguments.kind;
  const char* over = kind.id == Benchmark::first ? "rounds" : "iterations";
  const bool windows_only = (kind.messages() || kind.one_sided()) && !kind.one_message();
  if (kind.id == Benchmark::overlap)
    std::cout << "# means over the iterations\n";
  else if (kind.datatypes())
    std::cout << "# medians over the iterations\n";
  else if (!arguments.full)
    std::cout << fmt::format("# medians over the {}; -f shows more\n", over);
  else if (windows_only)
    std::cout << fmt::format("# P50, P1: half of the {}, and 1 of 100, reach no more\n", over);
  else if (kind.one_quantity() || kind.collective || shows_first(kind))
    std::cout << fmt::format("# P50, P99: half of the {}, and 99 of 100, take no longer\n", over);
  else
    std::cout << fmt::format("# P50: medians over the {}; slow: 1 of 100 is slower\n", over);
}

Report::Report(const BenchArguments& arguments, const Context& context)
    : arguments_(arguments), noise_(arguments) {
  check_json_target(arguments.json);
  json_ = std::make_unique<Json>(context_json(arguments, context));
  Json& json = *json_;
  if (arguments.fresh) json["fresh"] = true;
  if (arguments.probe != Probe::none) json["probe"] = arguments.probe == Probe::probe ? "probe" : "mprobe";
  if (arguments.offset > 0) json["offset"] = arguments.offset;
  if (arguments.kind->id == Benchmark::partitioned) json["partitions"] = arguments.partitions;
  if (arguments.kind->id == Benchmark::first) json["rounds"] = arguments.rounds;
  if (!arguments.kind->one_message()) json["window"] = arguments.window;
  if (arguments.kind->one_sided()) {
    json["window_kind"] = arguments.window_kind;
    json["synchronization"] = arguments.sync;
  }
  if (arguments.kind->combines()) json["type"] = arguments.element, json["operation"] = arguments.reduction;
  json["results"] = Json::array();
  if (!table()) return;
  print_context(arguments, context);
  print_statistics(arguments);
  if (arguments.kind->id != Benchmark::first) print_headings();
}

Report::~Report() = default;

bool Report::narrow() const {
  return arguments_.full || arguments_.kind->id == Benchmark::copy || shows_first(*arguments_.kind) ||
         compares();
}

bool Report::names_rows() const {
  return table_rows(arguments_).size() > 1;
}

std::vector<Report::Column> Report::columns(const TableRow& row, const Measurement* m) const {
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

void Report::print_headings() const {
  if (narrow()) std::cout << "# " << units_of(arguments_) << "\n";
  std::cout << fmt::format("{:<{}}", "# Size", narrow() ? narrow_size_width : size_width);
  if (names_rows()) std::cout << fmt::format("{:>{}}", "", row_name_width);
  for (const Column& column : columns(table_rows(arguments_).front(), nullptr))
    std::cout << fmt::format("{:>{}}", column.heading,
                             narrow() ? narrow_width(column.heading, column.cell) : value_width);
  std::cout << std::endl;
}

void Report::note_job_first(double us) {
  (*json_)["job_first_us"] = us;
  if (!table()) return;
  std::cout << fmt::format("# first message of the job, {} byte{}: {:.2f} us\n", arguments_.smallest,
                           arguments_.smallest == 1 ? "" : "s", us);
  print_headings();
}

void Report::add(const Measurement& m) {
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
  if (m.valid) row["valid"] = *m.valid;
  if (doubtful) row["doubtful"] = true;
  (*json_)["results"].push_back(row);
  valid_ = valid_ && m.valid.value_or(true);
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

int Report::finish() {
  if (arguments_.validate) (*json_)["valid"] = valid_;
  if (!arguments_.json.empty()) write_json(arguments_.json, *json_);
  if (table()) noise_.warn();
  if (table() && arguments_.validate)
    std::cout << fmt::format("# validation: {}\n",
                             valid_ ? "all received bytes are right" : "received bytes are WRONG");
  return valid_ ? exit_success : exit_problem;
}

}  // namespace fairlead::tools
