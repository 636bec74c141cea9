// SPDX-License-Identifier: Apache-2.0
//
// The benchmarks there are, a row each: benchmarks.def lists them.

#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective.h"
#include "bench/one_sided.h"

namespace CLI {
class App;
}

namespace fairlead::tools {

struct BenchArguments;
// Adds options to a command line, which fill in the arguments.
using OptionGroup = std::function<void(CLI::App&, BenchArguments&)>;

// Collectives are two: blocking calls, and nonblocking ones with computation meanwhile. One-sided benchmarks
// are an access each.
enum class Benchmark {
  latency,
  latency_threads,
  bandwidth,
  bidirectional,
  multi_latency,
  multi_bandwidth,
  partitioned,
  first,
  posted,
  pairs,
  all_pairs,
  init,
  pack,
  halo,
  datatype,
  access_latency,
  access_bandwidth,
  access_both_ways,
  put_halo,
  file,
  copy,
  host_overhead,
  collective,
  overlap,
  enqueue,
  enqueue_allreduce,
  enqueue_alltoallv,
  enqueue_neighbors,
  tune,
  matrix
};

struct BenchmarkKind {
  Benchmark id;
  const char* name;
  const char* summary;
  const char* examples;        // {0}: the name
  const OptionGroup* options;  // in the order of the help
  bool uses_mpi;               // runs in ranks; the others run in the process of `fairlead`
  int ranks;                   // launched when called plainly
  std::optional<Collective> collective = {};
  std::optional<Access> access = {};
  bool persistent = false;  // starts requests that were made before

  bool barrier() const { return collective == Collective::barrier; }
  // Messages of two ranks to each other, which are measured as a nonblocking collective is.
  bool exchanges() const { return collective == Collective::exchange; }
  // By its name a collective of MPI.
  bool names_collective() const { return collective && !exchanges(); }
  bool moves_bytes() const { return !barrier() && id != Benchmark::init; }
  // Messages between the first half of the ranks that take part and the second, whose memory two letters
  // name.
  bool messages() const;
  // It takes so many ranks and no others; 0: it measures all that there are.
  int exact_ranks() const;
  // Each rank of the first half works with one of the second.
  bool in_pairs() const {
    return all_ranks() || id == Benchmark::pairs || (one_sided() && id != Benchmark::put_halo);
  }
  bool all_ranks() const { return id == Benchmark::multi_latency || id == Benchmark::multi_bandwidth; }
  // Of layouts with gaps, as MPI datatypes describe them; a row for each layout.
  bool datatypes() const {
    return id == Benchmark::pack || id == Benchmark::halo || id == Benchmark::datatype;
  }
  // Of operations that are enqueued on a GPU stream.
  bool on_streams() const { return id >= Benchmark::enqueue && id <= Benchmark::enqueue_neighbors; }
  // Of accesses to the windows of others; two letters name the memory of their origins and of the windows.
  bool one_sided() const { return access.has_value(); }
  // The size of one is given.
  bool one_word() const { return access && access_kind(*access).one_word; }
  // On elements of a type, by an operation.
  bool combines() const { return access && access_kind(*access).combines; }
  // What is measured is the time of one message or access; else bandwidth, of a window of them.
  bool one_message() const;
  // Takes one size for latency and one for bandwidth.
  bool two_sizes() const { return id == Benchmark::all_pairs || id == Benchmark::matrix; }
  // Shows one quantity a row.
  bool one_quantity() const {
    return (messages() && id != Benchmark::first) || (one_sided() && id != Benchmark::put_halo);
  }
};

#define FAIRLEAD_IN_RANKS(id, name, ranks, run, options, ...) extern const OptionGroup options;
#define FAIRLEAD_ALONE FAIRLEAD_IN_RANKS
#include "bench/options/benchmarks.def"

inline constexpr BenchmarkKind benchmark_kinds[] = {
#define FAIRLEAD_ROW(kind_id, text, describes, shows, defines, in_ranks, number, ...) \
  {.id = Benchmark::kind_id,                                                          \
   .name = text,                                                                      \
   .summary = describes,                                                              \
   .examples = shows,                                                                 \
   .options = &defines,                                                               \
   .uses_mpi = in_ranks,                                                              \
   .ranks = number __VA_OPT__(, ) __VA_ARGS__},
#define FAIRLEAD_IN_RANKS(id, name, ranks, run, options, summary, examples, ...) \
  FAIRLEAD_ROW(id, #name, summary, examples, options, true, ranks, __VA_ARGS__)
#define FAIRLEAD_ALONE(id, name, ranks, run, options, summary, examples) \
  FAIRLEAD_ROW(id, #name, summary, examples, options, false, ranks)
#include "bench/options/benchmarks.def"
#undef FAIRLEAD_ROW
};

// By its name, which may be that of the OSU suite: osu_latency (osu.def). Null where there is none.
const BenchmarkKind* find_kind(const std::string& name);
// Throws a usage Failure where there is none, which says what to use where the OSU suite or nccl-tests have
// one.
const BenchmarkKind& kind_of(const std::string& name);

// The heading that it stands under where all are listed; those of one follow each other.
const char* group_of(const BenchmarkKind& kind);
std::string names_in(const std::string& group);  // "latency, bw, ..."

// What to use instead of an option of the OSU suite or of nccl-tests that the benchmark lacks: "-G", with its
// value; empty for any other word.
std::string answer_to_option(const std::string& word);
// The same for a value that an option takes there and not here: "-T", "all". Those of nccl-tests are answered
// for benchmarks that measure NCCL, too.
std::string answer_to_value(const std::string& option, const std::string& value, bool measures_nccl);

std::string benchmark_names();  // "latency, bw, ..."
// Of the memory that the placement letters name: each by its name in a table's head, and both in a sentence.
std::array<std::string, 2> owner_names(const BenchmarkKind& kind);
std::string owners_of(const BenchmarkKind& kind);
std::vector<std::string> tunable();  // the collectives that have a benchmark and algorithms

// "fairlead bench latency"; benchmarks that are commands of their own go by that.
std::string command_of(const BenchmarkKind& kind);

// Its summary and, for collectives, what the columns mean.
std::string description_of(const BenchmarkKind& kind);

}  // namespace fairlead::tools
