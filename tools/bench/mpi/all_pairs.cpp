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

struct Column {
  const char* key;
  const char* heading;
  Measurement PairResult::*of;
  bool bandwidth;
};
constexpr Column columns[] = {{"latency_us", "Latency (us)", &PairResult::latency, false},
                              {"bandwidth_mb_s", "One way (MB/s)", &PairResult::one_way, true},
                              {"both_ways_mb_s", "Both (MB/s)", &PairResult::both_ways, true}};

// With -f the statistic's name stands before the quantity's.
int column_width(const BenchArguments& arguments) {
  return arguments.full ? value_width + 2 : value_width;
}

class AllPairsReport {
 public:
  AllPairsReport(const BenchArguments& arguments, const Context& context)
      : arguments_(arguments), json_(context_json(arguments, context)), noise_(arguments) {
    check_json_target(arguments.json);
    json_["window"] = arguments.window;
    json_["results"] = Json::array();
    if (!table()) return;
    print_context(arguments, context);
    print_statistics(arguments);
    std::cout << fmt::format("# latency of {} bytes, bandwidth of {} bytes\n{:<12}{:>6}", arguments.smallest,
                             arguments.largest, "# From", "To");
    for (const Column& column : columns)
      for (const Statistic& statistic : statistics(arguments, column.bandwidth))
        std::cout << fmt::format(
            "{:>{}}", fmt::format("{}{}{}", statistic.name, *statistic.name ? " " : "", column.heading),
            column_width(arguments));
    if (arguments.validate) std::cout << fmt::format("{:>8}", "Valid");
    std::cout << std::endl;
  }

  void add(const PairResult& r) {
    bool valid = true, doubtful = false;
    Json row = {
        {"from", r.from}, {"to", r.to}, {"latency_bytes", r.latency.bytes}, {"bytes", r.one_way.bytes}};
    std::string line = fmt::format("{:<12}{:>6}", r.from, r.to);
    for (const Column& column : columns) {
      const Measurement& m = r.*column.of;
      const Distribution& d = column.bandwidth ? *m.bandwidth_mb_s : *m.latency_us;
      valid = valid && m.valid.value_or(true);
      row[column.key] = to_json(d);
      doubtful |= noise_.look(fmt::format("{} {} -> {}", column.heading, r.from, r.to), d, m.iterations);
      for (const Statistic& statistic : statistics(arguments_, column.bandwidth))
        line += fmt::format("{:>{}.2f}", d.*statistic.value, column_width(arguments_));
    }
    valid_ = valid_ && valid;
    if (doubtful) row["doubtful"] = true;
    if (arguments_.validate) {
      row["valid"] = valid;
      line += fmt::format("{:>8}", valid ? "Pass" : "Fail");
    }
    json_["results"].push_back(row);
    if (table()) std::cout << line << std::endl;
  }

  int finish() {
    if (arguments_.validate) json_["valid"] = valid_;
    if (!arguments_.json.empty()) write_json(arguments_.json, json_);
    if (table()) noise_.warn();
    return valid_ ? exit_success : exit_problem;
  }

 private:
  bool table() const { return arguments_.json != "-"; }

  BenchArguments arguments_;
  Json json_;
  NoiseWatch noise_;
  bool valid_ = true;
};

// Both directions of a pair of ranks, the first of which is `low`. The ranks of the pair call it.
std::pair<PairResult, PairResult> measure(const BenchArguments& arguments, const Partners& pair, int low,
                                          int high, int partner) {
  auto channel = make_mpi_channel(partner);
  Sweep sweep(arguments, Benchmark::latency, pair, *channel, Place::device);
  PairResult there{.from = low, .to = high}, back{.from = high, .to = low};
  there.latency = back.latency = sweep.measure(arguments.smallest);
  sweep.turn_to(Benchmark::bandwidth, pair.place);
  there.one_way = sweep.measure(arguments.largest);
  sweep.turn_to(Benchmark::bandwidth, 1 - pair.place);
  back.one_way = sweep.measure(arguments.largest);
  sweep.turn_to(Benchmark::bidirectional, pair.place);
  there.both_ways = back.both_ways = sweep.measure(arguments.largest);
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

  for (int low = 0; low < ranks.size; ++low)
    for (int high = low + 1; high < ranks.size; ++high) {
      bool takes_part = ranks.rank == low || ranks.rank == high;
      OwnedComm pair(takes_part ? 0 : MPI_UNDEFINED, ranks.rank);
      PairResult there{}, back{};
      if (takes_part) {
        const bool is_low = ranks.rank == low;
        std::tie(there, back) =
            measure(arguments, {.comm = pair.get(), .place = is_low ? 0 : 1}, low, high, is_low ? high : low);
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
