// SPDX-License-Identifier: Apache-2.0
//
// all_pairs: latency, and bandwidth in each direction and in both at once, between every two ranks, one pair
// after the other. Those that have no part sleep meanwhile.

#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/mpi/sweep.h"

namespace fairlead::tools {
namespace {

using Json = nlohmann::ordered_json;

struct PairResult {
  int from, to;
  Measurement latency = {}, one_way = {}, both_ways = {};
};

// Brings what rank `from` has found to rank 0.
void bring(PairResult* result, int from, int rank) {
  static_assert(std::is_trivially_copyable_v<PairResult>);
  constexpr int tag = 7;
  if (from == 0) return;
  if (rank == from) MPI_Send(result, sizeof *result, MPI_BYTE, 0, tag, MPI_COMM_WORLD);
  if (rank == 0) MPI_Recv(result, sizeof *result, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

class AllPairsReport {
 public:
  AllPairsReport(const BenchArguments& arguments, const Context& context)
      : arguments_(arguments), json_(context_json(arguments, context)) {
    check_json_target(arguments.json);
    json_["window"] = arguments.window;
    json_["results"] = Json::array();
    if (!table()) return;
    print_context(arguments, context);
    std::cout << fmt::format("# latency of {} bytes, bandwidth of {} bytes\n{:<12}{:>6}{:>{}}{:>{}}{:>{}}",
                             arguments.smallest, arguments.largest, "# From", "To", "Latency (us)",
                             value_width, "One way (MB/s)", value_width, "Both (MB/s)", value_width);
    if (arguments.validate) std::cout << fmt::format("{:>8}", "Valid");
    std::cout << std::endl;
  }

  void add(const PairResult& r) {
    bool valid = true;
    for (const Measurement* m : {&r.latency, &r.one_way, &r.both_ways})
      valid = valid && m->valid.value_or(true);
    valid_ = valid_ && valid;
    Json row = {{"from", r.from},
                {"to", r.to},
                {"latency_bytes", r.latency.bytes},
                {"latency_us", to_json(*r.latency.latency_us)},
                {"bytes", r.one_way.bytes},
                {"bandwidth_mb_s", to_json(*r.one_way.bandwidth_mb_s)},
                {"both_ways_mb_s", to_json(*r.both_ways.bandwidth_mb_s)}};
    if (arguments_.validate) row["valid"] = valid;
    json_["results"].push_back(row);
    if (!table()) return;
    std::cout << fmt::format("{:<12}{:>6}{:>{}.2f}{:>{}.2f}{:>{}.2f}", r.from, r.to,
                             r.latency.latency_us->p50, value_width, r.one_way.bandwidth_mb_s->p50,
                             value_width, r.both_ways.bandwidth_mb_s->p50, value_width);
    if (arguments_.validate) std::cout << fmt::format("{:>8}", valid ? "Pass" : "Fail");
    std::cout << std::endl;
  }

  int finish() {
    if (arguments_.validate) json_["valid"] = valid_;
    if (!arguments_.json.empty()) write_json(arguments_.json, json_);
    return valid_ ? exit_success : exit_problem;
  }

 private:
  bool table() const { return arguments_.json != "-"; }

  BenchArguments arguments_;
  Json json_;
  bool valid_ = true;
};

// Both directions of a pair of ranks, the first of which is `low`. The ranks of the pair call it.
std::pair<PairResult, PairResult> measure(const BenchArguments& arguments, const Pair& pair, int low,
                                          int high, int partner, bool simulated) {
  auto channel = make_mpi_channel(partner);
  Sweep sweep(arguments, Benchmark::latency, pair, *channel, Place::device);
  PairResult there{.from = low, .to = high}, back{.from = high, .to = low};
  there.latency = back.latency = sweep.measure(arguments.smallest, simulated);
  sweep.turn_to(Benchmark::bandwidth, pair.place);
  there.one_way = sweep.measure(arguments.largest, simulated);
  sweep.turn_to(Benchmark::bandwidth, 1 - pair.place);
  back.one_way = sweep.measure(arguments.largest, simulated);
  sweep.turn_to(Benchmark::bidirectional, pair.place);
  there.both_ways = back.both_ways = sweep.measure(arguments.largest, simulated);
  return {there, back};
}

}  // namespace

int all_pairs_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  std::optional<AllPairsReport> report;
  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    ranks.take_device(arguments);
    std::string lacking = shortage(Place::device, 2 * arguments.largest, std::min(ranks.local_size, 2));
    if (!lacking.empty())
      throw usage(fmt::format("all_pairs: size {}: {}; give a smaller -m", arguments.largest, lacking));
  });
  std::vector<int> devices(static_cast<size_t>(ranks.size));
  MPI_Allgather(&ranks.device, 1, MPI_INT, devices.data(), 1, MPI_INT, MPI_COMM_WORLD);
  ranks.together([&] {
    if (ranks.rank != 0) return;
    Context context = ranks.context();
    for (int device : devices)
      context.devices += (context.devices.empty() ? "" : ",") + std::to_string(device);
    report.emplace(arguments, context);
  });

  const bool simulated = provider_of(arguments) == "sim";
  for (int low = 0; low < ranks.size; ++low)
    for (int high = low + 1; high < ranks.size; ++high) {
      bool takes_part = ranks.rank == low || ranks.rank == high;
      Pair pair{.place = ranks.rank == high};
      MPI_Comm_split(MPI_COMM_WORLD, takes_part ? 0 : MPI_UNDEFINED, ranks.rank, &pair.comm);
      PairResult there{}, back{};
      if (takes_part) {
        std::tie(there, back) =
            measure(arguments, pair, low, high, ranks.rank == low ? high : low, simulated);
        MPI_Comm_free(&pair.comm);
      }
      ranks.wait_for_all();
      bring(&there, low, ranks.rank);
      bring(&back, low, ranks.rank);
      if (report) report->add(there), report->add(back);
    }
  int code = report ? report->finish() : exit_success;
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return code;
}

}  // namespace fairlead::tools
