// SPDX-License-Identifier: Apache-2.0
//
// The command lines of the benchmarks. `fairlead bench` and the benchmark programs of each MPI parse the
// same words with the same code: the former before anything starts, the latter in every rank. Options follow
// the OSU micro-benchmarks where those have one.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/options/kinds.h"
#include "common/failure.h"
#include "common/words.h"

namespace fairlead::tools {

// Timed iterations of each size where the user gives none, up to 8 KiB and above: the OSU micro-benchmarks'.
struct UsualIterations {
  int64_t small, large;
};
inline constexpr uint64_t largest_small_size = 8192;
inline constexpr uint64_t most_posted = 1 << 20;  // every MPI has so many tags
inline constexpr UsualIterations usual_messages = {10000, 1000}, usual_windows = {100, 20},
                                 usual_collectives = {1000, 100};

inline constexpr int64_t usual_steps = 1000;  // of a chain on a stream

inline const std::vector<std::string> placements = {"D", "H", "M"};
inline const std::vector<std::string> layout_names = {"contiguous", "vector", "indexed", "struct",
                                                      "subarray"};
// Of the kernel that stands for an application's computation on the GPU.
inline constexpr unsigned compute_blocks = 4, compute_threads = 64;
inline const std::vector<std::string> matrix_ways = {"mpi", "engine", "kernel"},
                                      all_matrix_ways = {"mpi", "mpi-blit", "engine", "engine-blit",
                                                         "kernel"};

// How a receiver learns of a message before it receives it.
enum class Probe { none, probe, matched };

struct BenchArguments {
  const BenchmarkKind* kind = nullptr;
  std::string asked;  // its name as the user typed it, which may be that of the OSU suite
  // Sizes in bytes, each twice the one before.
  std::string size_range = "1:4m";  // of all_pairs and matrix "" where the user gives none
  uint64_t smallest = 1;
  uint64_t largest = 4 << 20;
  int64_t iterations = -1;  // -1: chosen by size
  int64_t warmup = -1;
  int window = 64;
  bool validate = false;
  bool full = false;   // more statistics in the table
  std::string device;  // "cuda", "rocm", "sim"; "" for what there is
  int sim = 0;         // simulated GPUs; 0: as many as FAIRLEAD_SIM_DEVICES says
  std::vector<std::string> placement = {"D", "D"};
  std::string via = "mpi";
  bool symmetric = false;  // NCCL's buffers are windows
  bool graph = false;      // and its calls graphs
  std::string json;        // file, "-" for stdout, "" for none
  int ranks = 2;
  std::string mpi;
  bool preload = true;
  // messages
  std::string offset_text = "0";
  uint64_t offset = 0;  // of messages in their buffers, in bytes
  bool fresh = false;   // new buffers for every round trip
  Probe probe = Probe::none;
  int partitions = 8;
  int threads = 2;
  // pairs
  int64_t count = 0;
  std::string allocator = "m";
  int64_t misalign = 0;
  bool usual_units = false;  // in the output: bytes, us and MB/s
  double timeout_s = 1;      // of a stride, or of a figure of the benchmarks of datatypes
  // pack; pairs: all messages of a row
  std::string packed_text;  // "" where the user gives none
  uint64_t packed_bytes = 64 << 20;
  int stride = 2;  // from block to block, in blocks
  int line = 128;  // bytes of a cache line
  // halo
  int edge = 512;  // elements of the cube along each dimension
  // datatype
  int64_t blocks = 1'000'000;
  std::vector<std::string> types;
  // host_overhead: pairs of runs; first: new buffers of each size; datatype: new types of each layout
  int rounds = 5;
  // collectives
  std::string element = "char";
  std::string reduction = "sum";
  std::string memory_text = "512m";
  uint64_t memory_limit = 0;
  std::string root_text = "0";
  int root = 0;  // -1: another one for every call
  int tests = 0;
  std::string target = "cpu";  // what computes meanwhile: cpu, gpu or both
  bool first = false;          // shows the first call of each size
  // one-sided; operation and element as of collectives
  std::string window_kind = "create";
  std::string sync = "flush";
  // file
  std::string file;
  bool raw = false;  // beside what the GPU itself takes
  // init
  bool context = false;  // also what the driver takes for a context
  // tune
  std::vector<int> rank_counts;
  std::vector<std::string> collectives;
  std::string output = "fairlead.tuning";  // of matrix: the picture
  // matrix
  std::vector<std::string> ways;
  std::string map;      // file to write
  bool anyway = false;  // of tune and matrix: write files from figures that mean nothing

  // Of all that run in ranks: --gpu and so on, as `fairlead exec` takes them.
  Words binding;

  std::string command;  // as the user typed it

  // What refusals begin with: "copy: "; nothing where the command's name says it already.
  std::string name_in_refusals() const;

  bool computes_on_gpu() const { return target != "cpu"; }
  bool needs_device() const;
  // Does the letter of this rank ask for a GPU? Where both letters are of each rank, either of them.
  bool needs_device_in(int rank, int ranks) const;
  const CollectiveKind& collective() const { return collective_kind(*kind->collective); }
  std::vector<uint64_t> sizes() const;
};

// Throws a cannot_run Failure where the GPUs that FAIRLEAD_DEVICE (or -d), --via nccl or a letter ask for are
// not here: simulated ones take their place only where they are asked for.
void require_gpu(const BenchArguments& arguments);
void require_gpu(const BenchArguments& arguments, bool needs_device);

// Throws a usage Failure where this benchmark cannot run in that many ranks.
void check_ranks(const BenchArguments& arguments, int ranks);

// Reads "MIN:MAX", "MIN:", ":MAX" or "MAX", sizes in bytes with k, m or g. Returns what is wrong, or nothing.
std::string read_range(const std::string& text, uint64_t* smallest, uint64_t* largest);

void define_bench(CLI::App& app, BenchArguments& arguments);

// Empty when help or the version was printed. Throws a usage Failure whose line names the benchmark.
std::optional<BenchArguments> parse_bench(const std::string& benchmark, const Words& words);

}  // namespace fairlead::tools
