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
#include <numeric>

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

}  // namespace

std::string provider_of(const BenchArguments& arguments) {
  return arguments.needs_device() || !arguments.device.empty() ? fairlead_device_provider() : "none";
}

Distribution distribution(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  auto at = [&](double fraction) {
    return values[static_cast<size_t>(fraction * double(values.size() - 1) + 0.5)];
  };
  double mean = std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
  return {mean, values.front(), at(0.5), at(0.99), values.back()};
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
  return {{"mean", d.mean}, {"min", d.min}, {"p50", d.p50}, {"p99", d.p99}, {"max", d.max}};
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
      std::cout << fmt::format("# rank 0: {}, {}: {}\n", place_name(arguments.placement[0]),
                               arguments.kind->collective ? "other ranks" : "rank 1",
                               place_name(arguments.placement[1]));
  }
  if (context.via != "MPI") std::cout << fmt::format("# via: {}\n", context.via);
  std::string provider = provider_of(arguments);
  std::cout << fmt::format("# provider: {}", provider);
  if (provider != "none")
    std::cout << fmt::format(", {}, devices {}", fairlead_device_name(0), context.devices);
  std::cout << "\n";
}

Report::Report(const BenchArguments& arguments, const Context& context) : arguments_(arguments) {
  check_json_target(arguments.json);
  Benchmark id = arguments.kind->id;
  latency_ = id == Benchmark::latency || id == Benchmark::copy;
  bandwidth_ = id != Benchmark::latency;

  json_ = std::make_unique<Json>(context_json(arguments, context));
  Json& json = *json_;
  if (arguments.fresh) json["fresh"] = true;
  if (bandwidth_) json["window"] = arguments.window;
  json["results"] = Json::array();
  if (!table()) return;

  print_context(arguments, context);
  std::cout << fmt::format("{:<{}}", "# Size", size_width);
  if (latency_) std::cout << fmt::format("{:>{}}", "Latency (us)", value_width);
  if (bandwidth_) std::cout << fmt::format("{:>{}}", "Bandwidth (MB/s)", value_width);
  if (arguments.kind->id == Benchmark::copy)
    std::cout << fmt::format("{:>{}}{:>{}}", "To host (MB/s)", value_width, "From host (MB/s)", value_width);
  if (arguments.validate) std::cout << fmt::format("{:>{}}", "Validation", value_width);
  std::cout << std::endl;
}

Report::~Report() = default;

void Report::add(const Measurement& m) {
  Json row = {{"bytes", m.bytes}, {"iterations", m.iterations}};
  if (m.latency_us) row["latency_us"] = to_json(*m.latency_us);
  if (m.bandwidth_mb_s) row["bandwidth_mb_s"] = to_json(*m.bandwidth_mb_s);
  if (m.device_to_host_mb_s) row["device_to_host_mb_s"] = to_json(*m.device_to_host_mb_s);
  if (m.host_to_device_mb_s) row["host_to_device_mb_s"] = to_json(*m.host_to_device_mb_s);
  if (m.valid) row["valid"] = *m.valid;
  (*json_)["results"].push_back(row);
  valid_ = valid_ && m.valid.value_or(true);
  if (!table()) return;
  std::cout << fmt::format("{:<{}}", m.bytes, size_width);
  for (const auto& column : {m.latency_us, m.bandwidth_mb_s, m.device_to_host_mb_s, m.host_to_device_mb_s})
    if (column) std::cout << fmt::format("{:>{}.2f}", column->mean, value_width);
  if (m.valid) std::cout << fmt::format("{:>{}}", *m.valid ? "Pass" : "Fail", value_width);
  std::cout << std::endl;  // a row at a time: some sizes take long
}

int Report::finish() {
  if (arguments_.validate) (*json_)["valid"] = valid_;
  if (!arguments_.json.empty()) write_json(arguments_.json, *json_);
  if (table() && arguments_.validate)
    std::cout << fmt::format("# validation: {}\n",
                             valid_ ? "all received bytes are right" : "received bytes are WRONG");
  return valid_ ? exit_success : exit_problem;
}

}  // namespace fairlead::tools
