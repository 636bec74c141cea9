// SPDX-License-Identifier: Apache-2.0
//
// all_pairs: latency, and bandwidth in each direction and in both at once, between every two ranks, one pair
// after the other. Those that have no part sleep meanwhile.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "bench/mpi/messages/all_pairs_report.h"
#include "bench/mpi/sweep.h"

namespace fairlead::tools {
namespace {

// Brings what rank `from` has found to rank 0.
void bring(PairResult* result, int from, int rank) {
  static_assert(std::is_trivially_copyable_v<PairResult>);
  if (from == 0) return;
  if (rank == from) MPI_Send(result, sizeof *result, MPI_BYTE, 0, message_tag, MPI_COMM_WORLD);
  if (rank == 0)
    MPI_Recv(result, sizeof *result, MPI_BYTE, from, message_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

// Both directions of a pair of ranks, the first of which is `low`. The ranks of the pair call it.
std::pair<PairResult, PairResult> measure_pair(const BenchArguments& arguments, const Partners& pair, int low,
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

int all_pairs_benchmark(const BenchArguments& asked, Ranks& ranks) {
  const BenchArguments arguments = with_usual_sizes(asked);
  std::optional<AllPairsReport> report;
  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    ranks.take_device(arguments);
    std::string lacking = shortage(Place::device, 2 * arguments.largest, std::min(ranks.local_size, 2));
    if (!lacking.empty())
      throw usage(fmt::format("all_pairs: size {}: {}; give a smaller -m", arguments.largest, lacking));
  });
  std::string devices = fmt::format("{}", fmt::join(ranks.devices(MPI_COMM_WORLD), ","));
  ranks.open(report, arguments, "MPI", devices);

  for (int low = 0; low < ranks.size; ++low)
    for (int high = low + 1; high < ranks.size; ++high) {
      bool takes_part = ranks.rank == low || ranks.rank == high;
      OwnedComm pair(takes_part ? 0 : MPI_UNDEFINED, ranks.rank);
      PairResult there{}, back{};
      if (takes_part) {
        const bool is_low = ranks.rank == low;
        std::tie(there, back) = measure_pair(arguments, {.comm = pair.get(), .place = is_low ? 0 : 1}, low,
                                             high, is_low ? high : low);
      }
      ranks.wait_for_all();
      bring(&there, low, ranks.rank);
      bring(&back, low, ranks.rank);
      if (report) report->add(there), report->add(back);
    }
  return ranks.finish(report);
}

}  // namespace fairlead::tools
