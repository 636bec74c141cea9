// SPDX-License-Identifier: Apache-2.0

#include "bench/report.h"

#include <fairlead/device.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "bench/buffer.h"
#include "bench/machine.h"
#include "common/files.h"
#include "common/provenance.h"
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

BenchArguments with_usual_sizes(BenchArguments a) {
  if (!is_simulated(a)) return a;
  if (a.kind->two_sizes() && a.size_range.empty()) a.largest = 256 << 10;
  if (a.kind->id == Benchmark::pack && a.packed_text.empty())
    a.packed_bytes = std::max<uint64_t>(1 << 20, a.largest);
  return a;
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
  write_to_file("--json", where, text);
}

Json to_json(const Distribution& d) {
  return {{"mean", d.mean}, {"min", d.min}, {"p1", d.p1},
          {"p25", d.p25},   {"p50", d.p50}, {"p75", d.p75},
          {"p99", d.p99},   {"max", d.max}, {"batches", std::vector<double>(d.batch, d.batch + d.batches)}};
}

Json context_json(const BenchArguments& arguments, const Context& context) {
  std::string provider = provider_of(arguments);
  device::Runtime* runtime = provider == "none" ? nullptr : device::whole_runtime();
  Provenance provenance{.command = arguments.command,
                        .mpi_abi = context.mpi_abi,
                        .mpi_library = context.mpi_library,
                        .ranks = context.ranks,
                        .nodes = context.nodes,
                        .gpus = {"none"}};
  if (runtime) provenance.gpus = Provenance::gpus_seen(runtime->version());
  const Json made = to_json(provenance);
  Json json = {{"schema", 1},
               {"benchmark", arguments.kind->name},
               {"command", made["command"]},
               {"date", made["date"]},
               {"fairlead", made["fairlead"]["version"]},
               {"preloaded", context.preloaded},
               {"mpi", {{"abi", context.mpi_abi}, {"library", context.mpi_library}}},
               {"via", context.via},
               {"provider", provider},
               {"ranks", context.ranks},
               {"devices", context.devices},
               {"hardware", hardware(arguments)},
               {provenance_key, made}};
  if (runtime) json["driver"] = runtime->version();
  if (!context.mpi_abi.empty()) json["placement"] = arguments.placement;
  return json;
}

Json provenance_of_runs(const Json& run, const BenchArguments& arguments) {
  Json json = run[provenance_key];
  json["program"] = Provenance::own_program();
  json["command"] = arguments.command;
  return json;
}

void print_context(const BenchArguments& arguments, const Context& context) {
  const std::string asked =
      arguments.asked == arguments.kind->name ? "" : fmt::format(" ({})", arguments.asked);
  std::cout << fmt::format("# fairlead bench {}{} {}\n", arguments.kind->name, asked, FAIRLEAD_VERSION);
  std::cout << fmt::format("# command: {}\n", arguments.command);
  if (!context.mpi_abi.empty()) {
    std::cout << fmt::format("# MPI: {} ({}), {} rank{}, Fairlead {}\n", context.mpi_library, context.mpi_abi,
                             context.ranks, context.ranks == 1 ? "" : "s",
                             context.preloaded ? "loaded" : "not loaded");
    auto [first, second] = owner_names(*arguments.kind);
    if (arguments.kind->moves_bytes())
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
  if (is_simulated(arguments)) std::cout << "# " << words_of_simulation << "\n";
}

std::vector<TableRow> table_rows(const BenchArguments& arguments) {
  std::vector<TableRow> rows = {{"P50", &Distribution::p50, &Distribution::p50}};
  if (arguments.full && !arguments.kind->one_quantity())
    rows.push_back(
        {arguments.kind->id == Benchmark::first ? "P99" : "slow", &Distribution::p99, &Distribution::p1});
  return rows;
}

int narrow_width(std::string_view heading, Cell cell) {
  return std::max(cell == Cell::number ? 8 : 0, static_cast<int>(heading.size()) + 2);
}

std::string narrow_number(double value) {
  return fmt::format("{:.{}f}", value, value < 9999.995 ? 2 : value < 99999.95 ? 1 : 0);
}

void print_statistics(const BenchArguments& arguments) {
  // There is one iteration; the others say it themselves.
  if (arguments.kind->id == Benchmark::init || arguments.kind->on_streams()) return;
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
  else if (kind.one_quantity() || kind.collective || kind.id == Benchmark::first)
    std::cout << fmt::format("# P50, P99: half of the {}, and 99 of 100, take no longer\n", over);
  else
    std::cout << fmt::format("# P50: medians over the {}; slow: 1 of 100 is slower\n", over);
}

Report::Report(const BenchArguments& arguments, const Context& context)
    : arguments_(arguments), noise_(arguments) {
  check_json_target(arguments.json);
  json_ = std::make_unique<Json>(context_json(arguments, context));
  json()["complete"] = false;
  if (!table()) return;
  print_context(arguments, context);
  print_statistics(arguments);
}

Report::~Report() = default;

void Report::add_row(Json row, std::optional<bool> valid, bool doubtful) {
  if (valid) row["valid"] = *valid;
  if (doubtful) row["doubtful"] = true;
  json()["results"].push_back(std::move(row));
  // What has been measured stays if the job is interrupted.
  if (!arguments_.json.empty() && arguments_.json != "-") write_json(arguments_.json, json());
  valid_ = valid_ && valid.value_or(true);
}

int Report::finish() {
  json()["complete"] = true;
  if (arguments_.validate) json()["valid"] = valid_;
  if (!json().contains("results")) json()["results"] = Json::array();
  if (!arguments_.json.empty()) write_json(arguments_.json, json());
  if (table() && arguments_.validate)
    std::cout << fmt::format("# validation: {}\n", valid_ ? "all bytes are right" : "bytes are WRONG");
  if (table()) noise_.warn();
  return valid_ ? exit_success : exit_problem;
}

}  // namespace fairlead::tools
