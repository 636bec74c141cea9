// SPDX-License-Identifier: Apache-2.0
//
// latency_mt: threads of rank 0 play ping-pong with as many of rank 1, all at once. Each has a communicator,
// buffers and a Sweep of its own; a size begins in all of them together.

#include <fairlead/device.h>
#include <fmt/format.h>

#include <algorithm>
#include <barrier>
#include <deque>
#include <exception>
#include <thread>

#include "bench/mpi/sweep.h"

namespace fairlead::tools {
namespace {

struct Player {
  Player(const BenchArguments& arguments, int rank, Place place)
      : comm(0, rank),
        channel(make_mpi_channel(1 - rank, Probe::none, comm.get())),
        sweep(arguments, arguments.kind->id, Partners{comm.get(), rank}, *channel, place) {}

  OwnedComm comm;
  std::unique_ptr<Channel> channel;
  Sweep sweep;
};

// Statistics are means over the threads, the extremes those of all.
Measurement combined(const std::vector<Measurement>& of_threads) {
  Measurement all = of_threads.front();
  for (const Measurement& m : of_threads) {
    all.iterations = std::min(all.iterations, m.iterations);
    all.latency_us->min = std::min(all.latency_us->min, m.latency_us->min);
    all.latency_us->max = std::max(all.latency_us->max, m.latency_us->max);
    if (m.valid) all.valid = *all.valid && *m.valid;
  }
  for (double Distribution::*field : {&Distribution::mean, &Distribution::p1, &Distribution::p25,
                                      &Distribution::p50, &Distribution::p75, &Distribution::p99}) {
    double sum = 0;
    for (const Measurement& m : of_threads) sum += *m.latency_us.*field;
    *all.latency_us.*field = sum / static_cast<double>(of_threads.size());
  }
  return all;
}

Measurement measure(std::deque<Player>& players, int device, uint64_t bytes) {
  const auto number = static_cast<std::ptrdiff_t>(players.size());
  std::vector<Measurement> results(players.size());
  std::vector<std::exception_ptr> failures(players.size());
  std::barrier begin(number);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < players.size(); ++i)
    threads.emplace_back([&, i] {
      if (device >= 0) fairlead_device_set(device);
      begin.arrive_and_wait();
      try {
        results[i] = players[i].sweep.measure(bytes);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return combined(results);
}

}  // namespace

int latency_threads_benchmark(const BenchArguments& arguments, Ranks& ranks) {
  std::deque<Player> players;
  std::optional<MessageReport> report;
  ranks.together([&] {
    check_ranks(arguments, ranks.size);
    int granted = MPI_THREAD_SINGLE;
    MPI_Query_thread(&granted);
    if (granted < MPI_THREAD_MULTIPLE) throw cannot_run("latency_mt: this MPI grants no MPI_THREAD_MULTIPLE");
  });
  const Place place = place_of(arguments.placement[static_cast<size_t>(ranks.rank)][0]);
  ranks.together([&] {
    if (provider_of(arguments) != "none" || arguments.needs_device()) ranks.take_device(arguments);
    const uint64_t needed =
        2 * static_cast<uint64_t>(arguments.threads) * (arguments.largest + arguments.offset);
    if (std::string lacking = shortage(place, needed, ranks.local_size); !lacking.empty())
      throw usage(
          fmt::format("latency_mt: size {}: {}; give a smaller -m or -t", arguments.largest, lacking));
    for (int thread = 0; thread < arguments.threads; ++thread)
      players.emplace_back(arguments, ranks.rank, place);
  });
  const std::vector<std::string> devices = ranks.devices(MPI_COMM_WORLD);
  ranks.open(report, arguments, "MPI", fmt::format("{} -> {}", devices[0], devices[1]));
  for (uint64_t bytes : arguments.sizes()) {
    const Measurement m = measure(players, ranks.device, bytes);
    if (report) report->add(m);
  }
  return ranks.finish(report);
}

}  // namespace fairlead::tools
