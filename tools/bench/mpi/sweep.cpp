// SPDX-License-Identifier: Apache-2.0
//
// latency, bw and bibw: a sweep of message sizes between ranks 0 and 1.

#include "bench/mpi/sweep.h"

#include <fmt/format.h>

namespace fairlead::tools {

int sweep_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  bool takes_part = ranks.rank < 2;
  Place place = place_of(arguments.placement[ranks.rank == 1][0]);
  Pair pair{ranks.pair, ranks.rank};
  std::unique_ptr<Channel> channel;
  std::optional<Sweep> sweep;
  std::optional<Report> report;

  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    if (!takes_part) return;
    // Without this a host-to-host run starts no GPU, as the program it stands for would not.
    if (provider_of(arguments) != "none" || arguments.needs_device()) ranks.take_device(arguments);
    std::string lacking = shortage(place, 2 * arguments.largest, std::min(ranks.local_size, 2));
    if (!lacking.empty())
      throw usage(fmt::format("{}: size {}: {}; give a smaller -m", arguments.kind->name, arguments.largest,
                              lacking));
    channel = arguments.via == "nccl" ? make_nccl_channel(ranks) : make_mpi_channel(1 - ranks.rank);
    sweep.emplace(arguments, arguments.kind->id, pair, *channel, place);
  });
  std::string device_of[2];
  if (takes_part) {
    int devices[2] = {};
    MPI_Allgather(&ranks.device, 1, MPI_INT, devices, 1, MPI_INT, ranks.pair);
    for (int i = 0; i < 2; ++i) device_of[i] = devices[i] < 0 ? "none" : std::to_string(devices[i]);
  }
  ranks.together([&] {
    if (ranks.rank != 0) return;
    Context context = ranks.context();
    context.via = channel->name();
    context.devices = fmt::format("{} -> {}", device_of[0], device_of[1]);
    report.emplace(arguments, context);
  });

  if (takes_part) {
    // Host-to-host runs go at full speed on any machine.
    bool simulated = arguments.needs_device() && provider_of(arguments) == "sim";
    for (uint64_t bytes : arguments.sizes()) {
      Measurement m = sweep->measure(bytes, simulated);
      if (report) report->add(m);
    }
  }
  ranks.wait_for_all();
  int code = report ? report->finish() : exit_success;
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return code;
}

}  // namespace fairlead::tools
