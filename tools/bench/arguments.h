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

#include "common/failure.h"
#include "common/words.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

enum class Benchmark { latency, bandwidth, bidirectional, pairs, copy, host_overhead };

struct BenchmarkKind {
  Benchmark id;
  const char* name;
  const char* summary;
  bool uses_mpi;  // runs in ranks; the others run by themselves
  int ranks;      // launched when called plainly
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
    {Benchmark::copy, "copy",
     "Measure the GPU's own copy from device 0 to device 1 (to itself if there is one only), without MPI: "
     "what a "
     "message can at best reach.",
     false, 1},
    {Benchmark::host_overhead, "host_overhead",
     "Measure what loading Fairlead adds to an 8-byte host-to-host message: alternates runs with and without "
     "it.",
     false, 2},
};

struct BenchArguments {
  const BenchmarkKind* kind = nullptr;
  // Sizes in bytes, each twice the one before.
  std::string size_range = "1:4m";
  uint64_t smallest = 1;
  uint64_t largest = 4 << 20;
  int64_t iterations = -1;  // -1: chosen by size
  int64_t warmup = -1;
  int window = 64;
  bool validate = false;
  bool fresh = false;  // latency: new buffers for every round trip
  std::string device;  // "cuda", "rocm", "sim"; "" for what there is
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

  std::string command;  // as the user typed it

  bool needs_device() const;
  std::vector<uint64_t> sizes() const;
};

std::string benchmark_names();  // "latency, bw, ..."

// Throws a cannot_run Failure where the GPUs that FAIRLEAD_DEVICE (or -d) or --via nccl ask for are not here.
void require_gpu(const BenchArguments& arguments);

// Throws a usage Failure where this benchmark cannot run in that many ranks.
void check_ranks(const BenchmarkKind& kind, int ranks);

void define_bench(CLI::App& app, BenchArguments& arguments);

// Empty when help or the version was printed. Throws a usage Failure whose line names the benchmark.
std::optional<BenchArguments> parse_bench(const std::string& benchmark, const Words& words);

}  // namespace fairlead::tools
