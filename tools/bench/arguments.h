// SPDX-License-Identifier: Apache-2.0
//
// The benchmarks and their command lines. `fairlead bench` and the benchmark programs of each MPI parse the
// same words with the same code: the former before anything starts, the latter in every rank. Options follow
// the OSU micro-benchmarks where those have one.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective.h"
#include "common/failure.h"
#include "common/words.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

// Collectives are two: blocking calls, and nonblocking ones with computation meanwhile.
enum class Benchmark {
  latency,
  bandwidth,
  bidirectional,
  pairs,
  all_pairs,
  copy,
  host_overhead,
  collective,
  overlap,
  tune,
  matrix
};

struct BenchmarkKind {
  Benchmark id;
  const char* name;
  const char* summary;
  bool uses_mpi;  // runs in ranks; the others run by themselves
  int ranks;      // launched when called plainly
  std::optional<Collective> collective = {};
};

inline constexpr BenchmarkKind benchmark_kinds[] = {
    {Benchmark::latency, "latency",
     "Measure the time of one message between the first two ranks: half of a blocking round trip.", true, 2},
    {Benchmark::bandwidth, "bw", "Measure bandwidth from rank 0 to rank 1: windows of messages in flight.",
     true, 2},
    {Benchmark::bidirectional, "bibw", "Measure bandwidth of ranks 0 and 1 sending to each other at once.",
     true, 2},
    {Benchmark::pairs, "pairs",
     "Measure strided parallel pairs of ping-pong partners over all ranks; prints a gnuplot data file.", true,
     4},
    {Benchmark::all_pairs, "all_pairs",
     "Measure every two ranks, one pair after the other: latency, and bandwidth one way and both ways at "
     "once.",
     true, 2},
    {Benchmark::copy, "copy",
     "Measure the GPU's own copy from device 0 to device 1 (to itself if there is one only), without MPI: "
     "what a "
     "message can at best reach.",
     false, 1},
    {Benchmark::host_overhead, "host_overhead",
     "Measure what loading Fairlead adds to an 8-byte host-to-host message: alternates runs with and without "
     "it.",
     false, 2},
    {Benchmark::collective, "allreduce", "Measure MPI_Allreduce.", true, 2, Collective::allreduce},
    {Benchmark::collective, "bcast", "Measure MPI_Bcast.", true, 2, Collective::bcast},
    {Benchmark::collective, "reduce", "Measure MPI_Reduce.", true, 2, Collective::reduce},
    {Benchmark::collective, "allgather", "Measure MPI_Allgather.", true, 2, Collective::allgather},
    {Benchmark::collective, "allgatherv", "Measure MPI_Allgatherv.", true, 2, Collective::allgatherv},
    {Benchmark::collective, "alltoall", "Measure MPI_Alltoall.", true, 2, Collective::alltoall},
    {Benchmark::collective, "alltoallv", "Measure MPI_Alltoallv.", true, 2, Collective::alltoallv},
    {Benchmark::collective, "gather", "Measure MPI_Gather.", true, 2, Collective::gather},
    {Benchmark::collective, "scatter", "Measure MPI_Scatter.", true, 2, Collective::scatter},
    {Benchmark::collective, "reduce_scatter", "Measure MPI_Reduce_scatter.", true, 2,
     Collective::reduce_scatter},
    {Benchmark::collective, "barrier", "Measure MPI_Barrier.", true, 2, Collective::barrier},
    {Benchmark::overlap, "iallreduce", "Measure MPI_Iallreduce, and how much of it computation hides.", true,
     2, Collective::allreduce},
    {Benchmark::overlap, "ibcast", "Measure MPI_Ibcast, and how much of it computation hides.", true, 2,
     Collective::bcast},
    {Benchmark::overlap, "ireduce", "Measure MPI_Ireduce, and how much of it computation hides.", true, 2,
     Collective::reduce},
    {Benchmark::overlap, "iallgather", "Measure MPI_Iallgather, and how much of it computation hides.", true,
     2, Collective::allgather},
    {Benchmark::overlap, "iallgatherv", "Measure MPI_Iallgatherv, and how much of it computation hides.",
     true, 2, Collective::allgatherv},
    {Benchmark::overlap, "ialltoall", "Measure MPI_Ialltoall, and how much of it computation hides.", true, 2,
     Collective::alltoall},
    {Benchmark::overlap, "ialltoallv", "Measure MPI_Ialltoallv, and how much of it computation hides.", true,
     2, Collective::alltoallv},
    {Benchmark::overlap, "igather", "Measure MPI_Igather, and how much of it computation hides.", true, 2,
     Collective::gather},
    {Benchmark::overlap, "iscatter", "Measure MPI_Iscatter, and how much of it computation hides.", true, 2,
     Collective::scatter},
    {Benchmark::overlap, "ireduce_scatter",
     "Measure MPI_Ireduce_scatter, and how much of it computation hides.", true, 2,
     Collective::reduce_scatter},
    {Benchmark::overlap, "ibarrier", "Measure MPI_Ibarrier, and how much of it computation hides.", true, 2,
     Collective::barrier},
    {Benchmark::tune, "tune",
     "Measure every algorithm of the collectives on device memory, and write the rules by which "
     "FAIRLEAD_TUNING "
     "chooses the fastest.",
     false, 2},
    {Benchmark::matrix, "matrix",
     "Measure every two GPUs of this machine: by messages, by copy engine and by kernel, latency, and "
     "bandwidth "
     "one way and both ways at once. Says on which GPUs neighbouring ranks belong.",
     false, 2},
};

// Timed iterations of each size where the user gives none, up to 8 KiB and above: the OSU micro-benchmarks'.
struct UsualIterations {
  int64_t small, large;
};
inline constexpr uint64_t largest_small_size = 8192;
inline constexpr UsualIterations usual_messages = {10000, 1000}, usual_windows = {100, 20},
                                 usual_collectives = {1000, 100};

struct BenchArguments {
  const BenchmarkKind* kind = nullptr;
  // Sizes in bytes, each twice the one before.
  std::string size_range = "1:4m";  // of matrix "" where the user gives none
  uint64_t smallest = 1;
  uint64_t largest = 4 << 20;
  int64_t iterations = -1;  // -1: chosen by size
  int64_t warmup = -1;
  int window = 64;
  bool validate = false;
  bool fresh = false;  // latency: new buffers for every round trip
  std::string device;  // "cuda", "rocm", "sim"; "" for what there is
  int sim = 0;         // simulated GPUs; 0: as many as FAIRLEAD_SIM_DEVICES says
  std::vector<std::string> placement = {"D", "D"};
  std::string via = "mpi";
  std::string json;  // file, "-" for stdout, "" for none
  int ranks = 2;
  std::string mpi;
  bool preload = true;
  // pairs
  int64_t count = 0;
  std::string allocator = "m";
  int64_t misalign = 0;
  double timeout_s = 1;
  // host_overhead
  int rounds = 5;
  // collectives
  bool full = false;
  std::string element = "char";
  std::string reduction = "sum";
  std::string memory_text = "512m";
  uint64_t memory_limit = 0;
  std::string root_text = "0";
  int root = 0;  // -1: another one for every call
  int tests = 0;
  // tune
  std::vector<int> rank_counts;
  std::vector<std::string> collectives;
  std::string output = "fairlead.tuning";  // of matrix: the picture
  // matrix
  std::vector<std::string> ways;
  std::string map;  // file to write

  std::string command;  // as the user typed it

  // What refusals begin with: "copy: "; nothing where the command's name says it already.
  std::string name_in_refusals() const;

  bool needs_device() const;
  const CollectiveKind& collective() const { return collective_kind(*kind->collective); }
  std::vector<uint64_t> sizes() const;
};

std::string benchmark_names();  // "latency, bw, ..."

// "fairlead bench latency"; benchmarks that are commands of their own go by that.
std::string command_of(const BenchmarkKind& kind);

// Its summary and, for collectives, what the columns mean.
std::string description_of(const BenchmarkKind& kind);

// Throws a cannot_run Failure where the GPUs that FAIRLEAD_DEVICE (or -d) or --via nccl ask for are not here.
void require_gpu(const BenchArguments& arguments);

// Throws a usage Failure where this benchmark cannot run in that many ranks.
void check_ranks(const BenchArguments& arguments, int ranks);

void define_bench(CLI::App& app, BenchArguments& arguments);

// Empty when help or the version was printed. Throws a usage Failure whose line names the benchmark.
std::optional<BenchArguments> parse_bench(const std::string& benchmark, const Words& words);

}  // namespace fairlead::tools
