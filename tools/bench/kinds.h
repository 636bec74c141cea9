// SPDX-License-Identifier: Apache-2.0
//
// The benchmarks there are, a row each.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bench/collective.h"
#include "bench/one_sided.h"

namespace fairlead::tools {

// Collectives are two: blocking calls, and nonblocking ones with computation meanwhile. One-sided benchmarks
// are an access each.
enum class Benchmark {
  latency,
  bandwidth,
  bidirectional,
  multi_latency,
  multi_bandwidth,
  partitioned,
  first,
  posted,
  pairs,
  all_pairs,
  pack,
  halo,
  datatype,
  access_latency,
  access_bandwidth,
  access_both_ways,
  put_halo,
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
  std::optional<Access> access = {};

  bool barrier() const { return collective == Collective::barrier; }
  // Messages between the first half of the ranks that take part and the second, whose memory two letters
  // name.
  bool messages() const;
  // It takes so many ranks and no others; 0: it measures all that there are.
  int exact_ranks() const;
  bool all_ranks() const { return id == Benchmark::multi_latency || id == Benchmark::multi_bandwidth; }
  // Of layouts with gaps, as MPI datatypes describe them; a row for each layout.
  bool datatypes() const {
    return id == Benchmark::pack || id == Benchmark::halo || id == Benchmark::datatype;
  }
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

constexpr BenchmarkKind one_sided(Benchmark id, const char* name, Access access, const char* summary) {
  return {.id = id, .name = name, .summary = summary, .uses_mpi = true, .ranks = 2, .access = access};
}

inline constexpr BenchmarkKind benchmark_kinds[] = {
    {Benchmark::latency, "latency",
     "Measure the time of one message between the first two ranks: half of a blocking round trip.", true, 2},
    {Benchmark::bandwidth, "bw", "Measure bandwidth from rank 0 to rank 1: windows of messages in flight.",
     true, 2},
    {Benchmark::bidirectional, "bibw", "Measure bandwidth of ranks 0 and 1 sending to each other at once.",
     true, 2},
    {Benchmark::multi_bandwidth, "mbw_mr",
     "Measure bandwidth and message rate of many pairs at once: each rank of the first half sends windows of "
     "messages to one of the second.",
     true, 4},
    {Benchmark::multi_latency, "multi_lat",
     "Measure the time of one message while many pairs of ranks, one of each half, play ping-pong at once; "
     "the mean over the pairs.",
     true, 4},
    {Benchmark::partitioned, "partitioned",
     "Measure the time of one partitioned message (MPI_Psend_init), whose partitions are ready one after the "
     "other: from the first MPI_Pready to the arrival of all, half of a round trip.",
     true, 2},
    {Benchmark::first, "first",
     "Measure what new buffers cost: allocating one, the time of its first message, of the second, of later "
     "ones, and of the slowest of these, before which "
     "a receiver maps the memory as a rule.",
     true, 2},
    {Benchmark::posted, "posted",
     "Measure what very many outstanding messages cost: the time of each MPI_Irecv and MPI_Isend while so "
     "many are "
     "under way, and of their arrival.",
     true, 2},
    {Benchmark::pairs, "pairs",
     "Measure strided parallel pairs of ping-pong partners over all ranks; prints a gnuplot data file.", true,
     4},
    {Benchmark::all_pairs, "all_pairs",
     "Measure every two ranks, one pair after the other: latency, and bandwidth one way and both ways at "
     "once.",
     true, 2},
    {Benchmark::pack, "pack",
     "Measure MPI_Pack and MPI_Unpack of vectors of small blocks, beside a copy that moves the same cache "
     "lines.",
     true, 1},
    {Benchmark::halo, "halo",
     "Measure the exchange of each face of a cube of doubles between two ranks, beside that of contiguous "
     "messages of the same bytes.",
     true, 2},
    {Benchmark::datatype, "datatype",
     "Measure messages of datatypes: one message beside a contiguous one of the same bytes, and what the "
     "first "
     "use of a new type costs.",
     true, 2},
    one_sided(Benchmark::access_latency, "put_latency", Access::put,
              "Measure the time of one MPI_Put from rank 0 to the window of rank 1, with what ends it."),
    one_sided(Benchmark::access_latency, "get_latency", Access::get,
              "Measure the time of one MPI_Get by rank 0 from the window of rank 1, with what ends it."),
    one_sided(Benchmark::access_bandwidth, "put_bw", Access::put,
              "Measure bandwidth of MPI_Put from rank 0 to rank 1: of many, and what ends them together."),
    one_sided(Benchmark::access_bandwidth, "get_bw", Access::get,
              "Measure bandwidth of MPI_Get by rank 0 from rank 1: of many, and what ends them together."),
    one_sided(Benchmark::access_both_ways, "put_bibw", Access::put,
              "Measure bandwidth of ranks 0 and 1 putting to each other at once."),
    one_sided(
        Benchmark::access_latency, "acc_latency", Access::accumulate,
        "Measure the time of one MPI_Accumulate from rank 0 to the window of rank 1, with what ends it."),
    one_sided(
        Benchmark::access_latency, "get_acc_latency", Access::get_accumulate,
        "Measure the time of one MPI_Get_accumulate by rank 0 on the window of rank 1, with what ends it."),
    one_sided(
        Benchmark::access_latency, "fop_latency", Access::fetch_and_op,
        "Measure the time of one MPI_Fetch_and_op, a sum of 64-bit integers, by rank 0 on the window of "
        "rank 1, with what ends it."),
    one_sided(
        Benchmark::access_latency, "cas_latency", Access::compare_and_swap,
        "Measure the time of one MPI_Compare_and_swap of 64-bit integers by rank 0 on the window of rank 1, "
        "with what ends it."),
    one_sided(
        Benchmark::put_halo, "put_halo", Access::put,
        "Measure an exchange of borders in a ring of all ranks by MPI_Put, beside the same by MPI_Sendrecv."),
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

// By its name, which may be that of the OSU suite: osu_latency. Null where there is none.
const BenchmarkKind* find_kind(const std::string& name);
// Throws a usage Failure where there is none.
const BenchmarkKind& kind_of(const std::string& name);

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
