// SPDX-License-Identifier: Apache-2.0
//
// init: what MPI_Init took in each rank, which main() has measured; and what the GPU's driver takes after it
// for a context, which it may have made in MPI_Init already.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bench/buffer.h"
#include "bench/mpi/ranks.h"
#include "bench/timing.h"

namespace fairlead::tools {
namespace {

class InitReport : public Report {
 public:
  InitReport(const BenchArguments& arguments, const Context& context) : Report(arguments, context) {}

  // Times in ms, over the ranks.
  struct Time {
    const char *key, *name;
    double mean, least, greatest;
  };

  void add(const std::vector<Time>& times) {
    nlohmann::ordered_json row = {{"iterations", 1}};
    for (const Time& time : times)
      row[time.key] = {{"mean", time.mean}, {"min", time.least}, {"max", time.greatest}};
    add_row(std::move(row), std::nullopt, false);
    if (!table()) return;
    std::cout << fmt::format("{:<{}}", times.size() == 1 ? "# MPI_Init" : "# Time", size_width);
    for (const char* heading : {"Avg (ms)", "Min (ms)", "Max (ms)"})
      std::cout << fmt::format("{:>{}}", heading, value_width);
    for (const Time& time : times) {
      std::cout << fmt::format("\n{:<{}}", times.size() == 1 ? "" : time.name, size_width);
      for (double value : {time.mean, time.least, time.greatest})
        std::cout << fmt::format("{:>{}.2f}", value, value_width);
    }
    std::cout << std::endl;
  }
};

InitReport::Time over_ranks(const char* key, const char* name, double seconds, int ranks) {
  double sum = 0, least = 0, greatest = 0;
  MPI_Reduce(&seconds, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&seconds, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
  MPI_Reduce(&seconds, &greatest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  return {key, name, 1e3 * sum / ranks, 1e3 * least, 1e3 * greatest};
}

}  // namespace

int init_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  double context_s = seconds_for_gpu;
  ranks.together([&] {
    if (!arguments.context) return;
    const auto start = std::chrono::steady_clock::now();
    ranks.take_device(arguments);
    const Buffer first(Place::device, 1);
    context_s += seconds_since(start);
  });
  std::optional<InitReport> report;
  ranks.open(report, arguments, "MPI", fmt::format("{}", fmt::join(ranks.devices(MPI_COMM_WORLD), ", ")));
  std::vector<InitReport::Time> times = {over_ranks("init_ms", "MPI_Init", seconds_in_init, ranks.size)};
  if (arguments.context) {
    times.push_back(over_ranks("context_ms", "Context", context_s, ranks.size));
    times.push_back(over_ranks("total_ms", "Both", seconds_in_init + context_s, ranks.size));
  }
  if (report) report->add(times);
  return ranks.finish(report);
}

}  // namespace fairlead::tools
