// SPDX-License-Identifier: Apache-2.0
//
// init: what MPI_Init took in each rank, which main() has measured.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/mpi/ranks.h"

namespace fairlead::tools {
namespace {

class InitReport : public Report {
 public:
  InitReport(const BenchArguments& arguments, const Context& context) : Report(arguments, context) {}

  // In ms, over the ranks.
  void add(double mean, double least, double greatest) {
    add_row({{"iterations", 1}, {"init_ms", {{"mean", mean}, {"min", least}, {"max", greatest}}}},
            std::nullopt, false);
    if (!table()) return;
    std::cout << fmt::format("{:<{}}", "# MPI_Init", size_width);
    for (const char* heading : {"Avg (ms)", "Min (ms)", "Max (ms)"})
      std::cout << fmt::format("{:>{}}", heading, value_width);
    std::cout << fmt::format("\n{:<{}}", "", size_width);
    for (double value : {mean, least, greatest}) std::cout << fmt::format("{:>{}.2f}", value, value_width);
    std::cout << std::endl;
  }
};

}  // namespace

int init_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  std::optional<InitReport> report;
  ranks.open(report, arguments, "MPI", fmt::format("{}", fmt::join(ranks.devices(MPI_COMM_WORLD), ", ")));
  double sum = 0, least = 0, greatest = 0;
  MPI_Reduce(&seconds_in_init, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  MPI_Reduce(&seconds_in_init, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
  MPI_Reduce(&seconds_in_init, &greatest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (report) report->add(1e3 * sum / ranks.size, 1e3 * least, 1e3 * greatest);
  return ranks.finish(report);
}

}  // namespace fairlead::tools
