// SPDX-License-Identifier: Apache-2.0
//
// The benchmarks of messages over a range of sizes: between ranks 0 and 1, or at once between each rank of
// the first half and one of the second.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/mpi/sweep.h"

namespace fairlead::tools {
namespace {

// Which part a rank has.
struct Role {
  Role(const BenchArguments& arguments, const Ranks& ranks) {
    const int half = arguments.kind->all_ranks() ? ranks.size / 2 : 1;
    place = ranks.rank < half ? 0 : 1;
    partner = place == 0 ? ranks.rank + half : ranks.rank - half;
    pair = ranks.rank % half;
  }
  int place, partner, pair;
};

std::unique_ptr<Channel> make_channel(const BenchArguments& arguments, const Role& role, MPI_Comm pair) {
  if (arguments.via == "nccl") return make_nccl_channel(pair);
  if (arguments.kind->id == Benchmark::partitioned)
    return make_partitioned_channel(role.partner, arguments.partitions);
  if (arguments.kind->persistent) return make_persistent_channel(role.partner);
  return make_mpi_channel(role.partner, arguments.probe);
}

// What a rank allocates, at most.
uint64_t needed_bytes(const BenchArguments& arguments) {
  uint64_t copies = arguments.kind->id == Benchmark::first ? static_cast<uint64_t>(arguments.rounds) + 1 : 1;
  return 2 * copies * (arguments.largest + arguments.offset);
}

// "0,1 -> 2,3"
std::string devices_of_halves(const std::vector<std::string>& devices) {
  auto half = devices.begin() + static_cast<std::ptrdiff_t>(devices.size() / 2);
  return fmt::format("{} -> {}", fmt::join(devices.begin(), half, ","), fmt::join(half, devices.end(), ","));
}

}  // namespace

int messages_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  ranks.together([&] { check_ranks(arguments, ranks.size); });
  const Role role(arguments, ranks);
  const Place place = place_of(arguments.placement[static_cast<size_t>(role.place)][0]);
  const OwnedComm pair(role.pair, ranks.rank);
  std::unique_ptr<Channel> channel;
  std::optional<Sweep> sweep;
  std::optional<MessageReport> report;

  ranks.together([&] {
    // Without this a host-to-host run starts no GPU, as the program it stands for would not.
    if (provider_of(arguments) != "none" || arguments.needs_device()) ranks.take_device(arguments);
    std::string lacking = shortage(place, needed_bytes(arguments), ranks.local_size);
    if (!lacking.empty())
      throw usage(fmt::format("{}: size {}: {}; give a smaller -m", arguments.kind->name, arguments.largest,
                              lacking));
    channel = make_channel(arguments, role, pair.get());
    sweep.emplace(arguments, arguments.kind->id, Partners{MPI_COMM_WORLD, role.place}, *channel, place);
  });
  ranks.open(report, arguments, channel->name(), devices_of_halves(ranks.devices(MPI_COMM_WORLD)));

  const bool first = arguments.kind->id == Benchmark::first;
  if (first) {
    double us = sweep->once_us(arguments.smallest);
    if (report) report->note_job_first(us);
  }
  for (uint64_t bytes : arguments.sizes()) {
    Measurement m = first ? sweep->measure_first(bytes) : sweep->measure(bytes);
    if (report) report->add(m);
  }
  return ranks.finish(report);
}

}  // namespace fairlead::tools
