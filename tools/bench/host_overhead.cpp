// SPDX-License-Identifier: Apache-2.0
//
// `fairlead bench host_overhead`: what loading Fairlead costs a program that sends host memory only. Runs
// with and without the library alternate, so that a machine that speeds up or slows down meanwhile does so
// for both; the answer is the median of the differences.

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "bench/bench.h"
#include "bench/report.h"
#include "common/places.h"
#include "common/process.h"
#include "common/provenance.h"

namespace fairlead::tools {
namespace {

struct Run {
  double latency_ns;
  nlohmann::ordered_json result;
};

Run latency_run(const BenchArguments& arguments, bool preload) {
  int64_t iterations = arguments.iterations > 0 ? arguments.iterations : 50000;
  Words command = {own_path(),
                   "bench",
                   "latency",
                   "-n",
                   "2",
                   "-m",
                   "8:8",
                   "-i",
                   std::to_string(iterations),
                   "-x",
                   std::to_string(iterations / 10),
                   "--json",
                   "-",
                   "H",
                   "H"};
  if (!arguments.mpi.empty()) command.insert(command.end(), {"--mpi", arguments.mpi});
  if (!arguments.device.empty()) command.insert(command.end(), {"-d", arguments.device});
  if (!preload) command.push_back("--no-preload");
  Captured captured = capture(command, Stderr::pass);
  auto result = nlohmann::ordered_json::parse(captured.output, nullptr, false);
  if (captured.status != 0 || result.is_discarded())
    throw Failure(captured.status == exit_usage ? exit_usage : exit_problem,
                  fmt::format("host_overhead: this run failed with exit code {}: {}", captured.status,
                              shell_line(command)));
  // A descheduled rank spoils a few iterations and their mean, not this.
  return {result["results"][0]["latency_us"]["p50"].get<double>() * 1000, result};
}

}  // namespace

int host_overhead_benchmark(const BenchArguments& arguments) {
  check_json_target(arguments.json);
  bool table = arguments.json != "-";
  if (isatty(2))
    std::fprintf(stderr, "fairlead bench: %d runs follow, a second or so each\n", 2 * arguments.rounds);
  std::vector<double> with, without, differences;
  NoiseWatch noise(arguments);
  auto measure = [&](bool preload) {
    Run run = latency_run(arguments, preload);
    noise.take(run.result["results"][0].value("doubtful", false),
               preload ? "a run with Fairlead" : "a run without it");
    return run;
  };
  nlohmann::ordered_json last;
  for (int round = 0; round < arguments.rounds; ++round) {
    without.push_back(measure(false).latency_ns);
    Run loaded = measure(true);
    with.push_back(loaded.latency_ns);
    differences.push_back(with.back() - without.back());
    last = loaded.result;
    if (round == 0 && table) {
      std::cout << fmt::format("# fairlead bench host_overhead {}\n# command: {}\n", FAIRLEAD_VERSION,
                               arguments.command);
      std::cout << fmt::format("# MPI: {} ({}), 8 bytes from host to host, {} iterations a run\n",
                               last["mpi"]["library"].get<std::string>(),
                               last["mpi"]["abi"].get<std::string>(),
                               last["results"][0]["iterations"].get<int64_t>());
      std::cout << fmt::format("{:<12}{:>18}{:>18}{:>18}\n", "# Round", "Without (ns)", "With (ns)",
                               "Added (ns)");
    }
    if (table)
      std::cout << fmt::format("{:<12}{:>18.1f}{:>18.1f}{:>18.1f}", round + 1, without.back(), with.back(),
                               differences.back())
                << std::endl;
  }
  double added = distribution(differences).p50;
  if (table) std::cout << fmt::format("# added by Fairlead, median: {:.1f} ns\n", added);
  noise.warn();
  if (arguments.json.empty()) return exit_success;

  nlohmann::ordered_json json;
  for (const char* key : {"schema", "date", "fairlead", "mpi", "hardware"}) json[key] = last[key];
  json["benchmark"] = arguments.kind->name;
  json["command"] = arguments.command;
  json[provenance_key] = provenance_of_runs(last, arguments);
  json["bytes"] = 8;
  json["without_ns"] = without;
  json["with_ns"] = with;
  json["added_ns"] = added;
  write_json(arguments.json, json);
  return exit_success;
}

}  // namespace fairlead::tools
