// SPDX-License-Identifier: Apache-2.0
//
// bench-<abi>: the benchmarks that need MPI, one program per MPI ABI. `fairlead bench` and `fairlead run`
// start it; its arguments are the benchmark's name and options. Before those may stand --check: then it only
// says why its MPI has not what the benchmark needs, for which launchers would find words of their own.

#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <thread>

#include "bench/mpi/collectives/collective_channel.h"
#include "bench/mpi/messages/channel.h"
#include "bench/mpi/ranks.h"
#include "bench/timing.h"
#include "common/terminal.h"

namespace fairlead::tools {
namespace {

// By row of benchmark_kinds; null where `fairlead` itself measures.
constexpr int (*runs[])(const BenchArguments&, Ranks&) = {
#define FAIRLEAD_IN_RANKS(id, name, ranks, run, ...) run,
#define FAIRLEAD_ALONE(...) nullptr,
#include "bench/options/benchmarks.def"
};

int run_in_ranks(const BenchArguments& arguments) {
  Ranks ranks;
  try {
    ranks.together([&] {
      const auto start = std::chrono::steady_clock::now();
      require_gpu(arguments, arguments.needs_device_in(ranks.rank, ranks.size));
      seconds_for_gpu = seconds_since(start);
    });
    const int code = runs[arguments.kind - benchmark_kinds](arguments, ranks);
    require_stdout();
    return code;
  } catch (const AgreedFailure& failure) {
    if (ranks.rank == 0) say(std::string("fairlead bench: ") + failure.what());
    return failure.code();
  } catch (const std::exception& failure) {
    // The others may be waiting for this rank.
    auto known = dynamic_cast<const Failure*>(&failure);
    say(fmt::format("fairlead bench: rank {}: {}", ranks.rank, failure.what()));
    std::fflush(nullptr);
    // MPICH's launcher drops what it has not passed on when a rank aborts.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    MPI_Abort(MPI_COMM_WORLD, known ? known->code() : exit_problem);
    return exit_problem;
  }
}

int check(const Words& words) try {
  if (words.empty()) return exit_success;
  BenchArguments arguments;
  arguments.kind = &kind_of(words.front());
  if (arguments.kind->id == Benchmark::partitioned) require_partitioned();
  if (arguments.kind->collective && arguments.kind->persistent) MpiCollective::require_persistent(arguments);
  return exit_success;
} catch (const Failure& failure) {
  std::puts(failure.what());
  return failure.code();
}

}  // namespace
}  // namespace fairlead::tools

int main(int argc, char** argv) {
  using namespace fairlead::tools;
  std::optional<BenchArguments> arguments;
  try {
    if (argc < 2) throw usage("no benchmark named; this program is started by `fairlead bench`");
    if (std::string_view(argv[1]) == "--check") return check(Words(argv + 2, argv + argc));
    arguments = parse_bench(argv[1], Words(argv + 2, argv + argc));
  } catch (const Failure& failure) {
    return complain("fairlead bench", failure);
  }
  if (!arguments) return exit_success;
  // An MPI program's provider is chosen by variable, so that the interposition library sees the same.
  if (!arguments->device.empty()) setenv("FAIRLEAD_DEVICE", arguments->device.c_str(), 1);
  const bool threads = arguments->kind->id == Benchmark::latency_threads || arguments->kind->on_streams();
  int granted = MPI_THREAD_SINGLE;
  const auto start = std::chrono::steady_clock::now();
  threads ? MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted) : MPI_Init(&argc, &argv);
  seconds_in_init = seconds_since(start);
  int code = run_in_ranks(*arguments);
  MPI_Finalize();
  return code;
}
