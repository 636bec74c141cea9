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

// Columns are as wide as their headings. Where there are many, all of a line must be seen at once.
void print_cell(const std::string& heading, const std::string& text, bool many) {
  std::cout << fmt::format("{:>{}}", text, std::max<size_t>(many ? 11 : value_width, heading.size() + 2));
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
    std::cout << fmt::format("# MPI: {} ({}), {} ranks, Fairlead {}\n", context.mpi_library, context.mpi_abi,
                             context.ranks, context.preloaded ? "loaded" : "not loaded");
    if (arguments.kind->collective != Collective::barrier)
      std::cout << fmt::format("# {}: {}, {}: {}\n",
                               arguments.kind->all_ranks() ? "first half of the ranks" : "rank 0",
                               place_name(arguments.placement[0]),
                               arguments.kind->collective    ? "other ranks"
                               : arguments.kind->all_ranks() ? "second half"
                                                             : "rank 1",
                               place_name(arguments.placement[1]));
  }
  if (context.via != "MPI") std::cout << fmt::format("# via: {}\n", context.via);
  std::string provider = provider_of(arguments);
  std::cout << fmt::format("# provider: {}", provider);
  if (provider != "none")
    std::cout << fmt::format(", {}, devices {}", fairlead_device_name(0), context.devices);
  std::cout << "\n";
}

std::vector<Statistic> statistics(const BenchArguments& arguments, bool bandwidth) {
  const Statistic median = {"P50", &Distribution::p50}, tail = bandwidth
                                                                   ? Statistic{"P1", &Distribution::p1}
                                                                   : Statistic{"P99", &Distribution::p99};
  if (!arguments.full) return {{"", &Distribution::p50}};
  if (!arguments.kind->one_quantity()) return {median, tail};
  return {
      {"Avg", &Distribution::mean}, {"Min", &Distribution::min}, median, tail, {"Max", &Distribution::max}};
}

void print_statistics(const BenchArguments& arguments) {
  const BenchmarkKind& kind = *arguments.kind;
  const char* over = kind.id == Benchmark::first ? "rounds" : "iterations";
  const bool windows_only = kind.messages() && !kind.one_message();
  if (kind.id == Benchmark::overlap)
    std::cout << "# means over the iterations\n";
  else if (!arguments.full)
    std::cout << fmt::format("# medians over the {}; -f shows more\n", over);
  else if (!windows_only)
    std::cout << fmt::format("# P50, P99: half of the {}, and 99 of 100, take no longer\n", over);
  if (arguments.full && !kind.collective && !kind.one_message())
    std::cout << fmt::format("# P50, P1: half of the {}, and 1 of 100, reach no more\n", over);
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
  json["results"] = Json::array();
  if (!table()) return;
  print_context(arguments, context);
  print_statistics(arguments);
  if (arguments.kind->id != Benchmark::first) print_headings();
}

Report::~Report() = default;

bool Report::many_columns() const {
  return arguments_.kind->id == Benchmark::copy || arguments_.kind->id == Benchmark::first;
}

void Report::print_headings() const {
  if (many_columns())
    std::cout << "# times in us"
              << (arguments_.kind->id == Benchmark::copy ? ", bandwidths in MB/s\n" : "\n");
  std::cout << fmt::format("{:<{}}", "# Size", size_width);
  for (const std::string& heading : headings()) print_cell(heading, heading, many_columns());
  std::cout << std::endl;
}

void Report::note_job_first(double us) {
  (*json_)["job_first_us"] = us;
  if (!table()) return;
  std::cout << fmt::format("# first message of the job, {} byte{}: {:.2f} us\n", arguments_.smallest,
                           arguments_.smallest == 1 ? "" : "s", us);
  print_headings();
}

std::vector<std::string> Report::headings() const {
  const Benchmark id = arguments_.kind->id;
  std::vector<std::string> all;
  for (const Quantity& quantity : quantities)
    if (quantity.of(*arguments_.kind))
      for (const Statistic& statistic : statistics(arguments_, quantity.bandwidth))
        all.push_back(fmt::format("{}{}{}", statistic.name, *statistic.name ? " " : "",
                                  many_columns() ? without_unit(quantity.heading) : quantity.heading));
  if (id == Benchmark::multi_bandwidth) all.push_back("Messages/s");
  if (id == Benchmark::first) all.push_back("At message");
  if (arguments_.validate) all.push_back("Validation");
  return all;
}

void Report::add(const Measurement& m) {
  const Benchmark id = arguments_.kind->id;
  std::vector<std::string> cells;
  Json row = {{"bytes", m.bytes}, {"iterations", m.iterations}};
  bool doubtful = false;
  for (const Quantity& quantity : quantities) {
    if (!quantity.of(*arguments_.kind)) continue;
    const Distribution& d = *(m.*quantity.values);
    row[quantity.key] = to_json(d);
    for (const Statistic& statistic : statistics(arguments_, quantity.bandwidth))
      cells.push_back(fmt::format("{:.2f}", d.*statistic.value));
    // The figures of new buffers are few, and meant to differ.
    if (id != Benchmark::first)
      doubtful |= noise_.look(fmt::format("{} of {} bytes", quantity.name, m.bytes), d, m.iterations);
  }
  if (id == Benchmark::multi_bandwidth)
    cells.push_back(fmt::format("{:.0f}", m.bandwidth_mb_s->p50 * 1e6 / double(m.bytes)));
  if (id == Benchmark::first) {
    row["slowest"] = m.slowest;
    cells.push_back(std::to_string(m.slowest));
  }
  if (m.valid) {
    row["valid"] = *m.valid;
    cells.push_back(*m.valid ? "Pass" : "Fail");
  }
  if (doubtful) row["doubtful"] = true;
  (*json_)["results"].push_back(row);
  valid_ = valid_ && m.valid.value_or(true);
  if (!table()) return;
  std::cout << fmt::format("{:<{}}", m.bytes, size_width);
  const std::vector<std::string> above = headings();
  for (size_t i = 0; i < cells.size(); ++i) print_cell(above[i], cells[i], many_columns());
  std::cout << std::endl;  // a row at a time: some sizes take long
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
