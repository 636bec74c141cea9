// SPDX-License-Identifier: Apache-2.0
//
// The command line of each benchmark: a row of its examples and its options, in the order of the help.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "bench/option_groups.h"

namespace fairlead::tools {
namespace {

void define_probes(CLI::App& app, BenchArguments& a) {
  auto probe = app.add_flag_callback(
      "--probe", [&a] { a.probe = Probe::probe; },
      "Receivers do not know the length: MPI_Probe, MPI_Get_count, MPI_Recv.");
  app.add_flag_callback(
         "--mprobe", [&a] { a.probe = Probe::matched; }, "The same with MPI_Mprobe and MPI_Mrecv.")
      ->excludes(probe);
}

std::vector<Definition> message_definitions() {
  const OptionGroup message_sizes = sizes("Message sizes");
  const OptionGroup sizes_from_empty = sizes("Message sizes", " 0:MAX begins with empty messages.");
  const OptionGroup time_of_one = iterations(usual_messages), time_of_window = iterations(usual_windows);
  const OptionGroup at_once = number("-W,--window-size", &A::window, 1, 65536, "Messages in flight at once.");
  const OptionGroup placed = all_of({arrivals, placement_option,
                                     option("--offset", "BYTES", &A::offset_text,
                                            "Bytes by which messages start late in their aligned buffers.")});
  const OptionGroup carried = all_of({placed, via_option});
  const OptionGroup windows =
      all_of({message_sizes, time_of_window, at_once, carried, full_of_one, rank_options});
  const OptionGroup every_two =
      all_of({preset(&A::smallest, 8), preset(&A::largest, 64 << 20), preset(&A::size_range, ""),
              size_range("-m,--message-size",
                         "Sizes in bytes: MIN of latency, MAX of bandwidth; k, m and g may follow a number.",
                         "8:64m, or 8:256k on simulated GPUs"),
              time_of_window, preset(&A::window, 16), at_once, arrivals});
  const CLI::Validator any_number = whole_number(std::numeric_limits<int64_t>::min());
  return {
      {Benchmark::latency,
       "  fairlead bench latency -m 8:64k -c\n"
       "  fairlead bench latency -f D H         # from device to host memory and back\n"
       "  fairlead bench latency --mprobe --offset 1",
       {sizes_from_empty, time_of_one, carried,
        flag("--fresh", &A::fresh,
             "Both ranks allocate their buffers anew for every round trip, which is timed without that."),
        define_probes, full_of_one, rank_options}},
      {Benchmark::bandwidth,
       "  fairlead bench bw -m 64k:64m D D --json bw.json\n  fairlead bench bw --via nccl",
       {windows}},
      {Benchmark::bidirectional, "  fairlead bench bibw -W 16 -c", {windows}},
      {Benchmark::multi_bandwidth,
       "  fairlead bench mbw_mr -n 8 --json mbw_mr.json\n  srun -n 16 fairlead bench mbw_mr -m 8:1m H D",
       {windows}},
      {Benchmark::multi_latency,
       "  fairlead bench multi_lat -n 8 -f\n  srun -n 16 fairlead bench multi_lat -m 8:64k",
       {sizes_from_empty, time_of_one, carried, full_of_one, rank_options}},
      {Benchmark::partitioned,
       "  fairlead bench partitioned -p 16 -m 64k:64m\n  fairlead bench partitioned -c D H",
       {sizes("Message sizes", " MIN is rounded up to a multiple of the partitions."), time_of_one, placed,
        number("-p,--partitions", &A::partitions, 1, 65536, "Partitions of a message, all of one size."),
        full_of_one, rank_options}},
      {Benchmark::first,
       "  fairlead bench first -m 4k:64m --json first.json\n  FAIRLEAD_MAP_AFTER=0 fairlead bench first",
       {message_sizes, preset(&A::iterations, 50),
        number("-i,--iterations", &A::iterations, 3, most_iterations,
               "Round trips with the same new buffers: the first, the second, and later ones."),
        number("--rounds", &A::rounds, 1, 1000, "New buffers of each size; figures are medians over them."),
        carried, full_of_several, rank_options}},
      {Benchmark::posted,
       "  fairlead bench posted\n  fairlead bench posted -N 16k:64k D H --json posted.json",
       {preset(&A::size_range, "256:16k"),
        size_range(
            "-N,--messages",
            "Messages that are under way at once, doubling from MIN to MAX; k and m may follow a number."),
        preset(&A::iterations, 5),
        number("-i,--iterations", &A::iterations, 1, most_iterations,
               "Timed iterations of each number of messages."),
        placement_option, rank_options}},
      {Benchmark::pairs,
       "  fairlead bench pairs -n 4 1048576 d\n  srun -n 16 fairlead bench pairs 0 d > pairs.dat",
       {option("COUNT", "COUNT", &A::count,
               "Message size per iteration in longs (8 bytes each); 0 or less: the default.", any_number,
               "134217728 (1 GiB)"),
        option("ALLOCATOR", "ALLOCATOR", &A::allocator,
               "One letter, d: device memory, h: pinned host memory, a: posix_memalign, any other, as m: "
               "malloc. D, H and A are d, h and a."),
        option("MISALIGN", "MISALIGN", &A::misalign,
               "Longs by which the buffers start late; 0 or less: none.", any_number),
        option("--timeout", "SECONDS", &A::timeout_s,
               "Seconds; a stride ends with the first iteration that takes longer.", positive_number()),
        device_options, launch_options}},
      {Benchmark::all_pairs,
       "  fairlead bench all_pairs -n 8\n  srun -n 16 fairlead bench all_pairs -m 8:16m",
       {every_two, full_of_several, rank_options}},
      {Benchmark::matrix,
       "  fairlead matrix\n  fairlead matrix -o matrix.png --map gpus.map --json matrix.json\n"
       "  fairlead run -n 8 --map gpus.map ./my_mpi_program",
       {every_two,
        repeated("--way", &A::ways, matrix_ways,
                 "What to measure: mpi, messages of ranks with Fairlead; engine, the driver's copy; kernel, "
                 "a copy by the GPU's cores."),
        preset(&A::output, ""),
        option("-o,--output", "FILE", &A::output, "Draw heat maps: a .png or .svg, as `fairlead plot` does.",
               {}, ""),
        option("--map", "FILE", &A::map,
               "Write the order of GPUs for neighbouring ranks, as `fairlead run --map FILE` reads it.", {},
               ""),
        no_preload("Messages of the MPI alone, without Fairlead."), mpi(), results_options}},
      {Benchmark::copy,
       "  fairlead bench copy -m 8:256m",
       {message_sizes, time_of_one, at_once, arrivals, full_of_several, results_options}},
      {Benchmark::host_overhead,
       "  fairlead bench host_overhead --rounds 9",
       {number("--rounds", &A::rounds, 1, 1000, "Pairs of runs, one with and one without Fairlead."),
        number("-i,--iterations", &A::iterations, 1, most_iterations, "Timed round trips of each run.",
               "50000"),
        results_options, mpi()}},
  };
}

std::vector<Definition> layout_definitions() {
  const OptionGroup time_of_layout = iterations(usual_messages, "Timed iterations of each row.");
  const OptionGroup layouts_arrive = all_of(
      {time_of_layout,
       validation(
           "Check the bytes that came, and that the gaps between them remain, after the timed run and after "
           "a further iteration with new data; adds a column and exits with 1 when bytes are wrong."),
       placement_option});
  const OptionGroup end_of_layouts = all_of(
      {preset(&A::timeout_s, 5),
       option("--timeout", "SECONDS", &A::timeout_s,
              "Seconds that the iterations of each figure may take; one that takes longer is the last.",
              positive_number()),
       rank_options});
  return {
      {Benchmark::pack,
       "  fairlead bench pack --json pack.json\n  fairlead bench pack -m 16:1k --stride 4 -c D H",
       {preset(&A::smallest, 8), preset(&A::largest, 4 << 10), preset(&A::size_range, "8:4k"),
        size_range("-m,--message-size",
                   "Bytes of a block, doubling from MIN to MAX; k, m and g may follow a number."),
        time_of_layout,
        validation("Check the packed and the unpacked bytes, and that the gaps between these remain, in "
                   "further calls with new data; adds a column and exits with 1 when bytes are wrong."),
        placement_option,
        option("--bytes", "SIZE", &A::packed_text, "Packed bytes of a call; each has as many blocks as fit.",
               {}, "64m, or 1m on simulated GPUs"),
        number("--stride", &A::stride, 1, 64, "From one block to the next, in blocks."),
        option("--line", "BYTES", &A::line,
               "Bytes of a cache line, of which the copy moves as many as the blocks and the packed bytes "
               "lie in.",
               whole_number(1, 4096)),
        end_of_layouts}},
      {Benchmark::halo,
       "  fairlead bench halo -c\n  fairlead bench halo -N 256 --no-preload --mpi openmpi",
       {layouts_arrive, number("-N,--edge", &A::edge, 2, 4096, "Doubles along each edge of the cube."),
        end_of_layouts}},
      {Benchmark::datatype,
       "  fairlead bench datatype --json datatype.json\n"
       "  fairlead bench datatype -T indexed -T vector --blocks 1000 D H",
       {layouts_arrive,
        number("--blocks", &A::blocks, 1, 100'000'000,
               "Blocks of 8 bytes in a message; of subarray the greatest cube that has no more."),
        repeated("-T,--type", &A::types, layout_names,
                 fmt::format("What to measure: {}.", fmt::join(layout_names, ", "))),
        number("--rounds", &A::rounds, 1, 1000, "New types of each layout, whose first use is timed."),
        end_of_layouts}},
  };
}

std::vector<Definition> one_sided_definitions() {
  const char *size = "Sizes of accesses", *syncs = "-s,--sync-option";
  const OptionGroup access_sizes = sizes(size), time_of_one = iterations(usual_messages);
  const OptionGroup accesses_at_once =
      all_of({access_sizes, iterations(usual_windows),
              number("-W,--window-size", &A::window, 1, 65536,
                     "Accesses of a step, each to bytes of its own, which end together.")});
  const OptionGroup windows = all_of(
      {validation(
           "Check what each size left in the windows and brought back, in the timed run, where it can be "
           "told, and in further steps with new data; adds a column and exits with 1 when it is wrong."),
       placement_option,
       option("-w,--win-option", "KIND", &A::window_kind,
              "Windows of MPI_Win_create, MPI_Win_allocate, which may take host memory only, or "
              "MPI_Win_create_dynamic: create, allocate or dynamic.",
              one_of(window_kinds))});
  const OptionGroup any_sync = all_of(
      {windows, option(syncs, "KIND", &A::sync,
                       "What ends the accesses: flush or flush_local, inside one lock; lock or lock_all, a "
                       "lock of their own and its end; fence; pscw (post, start, complete, wait).",
                       one_of(all_syncs))});
  const OptionGroup active_sync =
      all_of({windows, option(syncs, "KIND", &A::sync,
                              "What ends the accesses: fence, or pscw (post, start, complete, wait).",
                              one_of(active_syncs))});
  const OptionGroup beside_copy = flag("--raw", &A::raw,
                                       "Also what rank 0 takes for the driver's copy of as many bytes "
                                       "between the two GPUs, and the wait for it.");
  const OptionGroup beside_copies =
      flag("--raw", &A::raw,
           "Also the bandwidth of the driver's copies between the two GPUs, as many and as large.");
  const std::string examples =
      "  fairlead bench {0} -m 8:64k -s lock -c\n  fairlead bench {0} -m 8:64k --raw D D\n"
      "  fairlead bench {0} -m 8:64k -w allocate H H";
  return {
      {Benchmark::access_latency,
       "  fairlead bench {0} -s lock -c\n  fairlead bench {0} --raw D D\n"
       "  fairlead bench {0} -w allocate H H",
       {preset(&A::smallest, word_bytes), preset(&A::largest, word_bytes), preset(&A::size_range, ""),
        iterations({usual_messages.small, usual_messages.small}), any_sync,
        flag("--raw", &A::raw, "Also what rank 0 takes to launch an empty kernel and to wait for it."),
        full_of_one, rank_options},
       &BenchmarkKind::one_word},
      {Benchmark::access_latency,
       examples,
       {sizes(size, " Sizes below one element begin with that."), time_of_one, any_sync, elements("float"),
        reduction_option, beside_copy, full_of_one, rank_options},
       &BenchmarkKind::combines},
      {Benchmark::access_latency,
       examples,
       {access_sizes, time_of_one, any_sync, beside_copy, full_of_one, rank_options}},
      {Benchmark::access_bandwidth,
       "  fairlead bench {0} -m 64k:64m -W 16 --raw\n  fairlead bench {0} -s fence -c D H",
       {accesses_at_once, any_sync, beside_copies, full_of_one, rank_options}},
      {Benchmark::access_both_ways,
       "  fairlead bench put_bibw -m 64k:64m -W 16 --raw\n  fairlead bench put_bibw -s fence -c",
       {accesses_at_once, preset(&A::sync, "pscw"), active_sync, beside_copies, full_of_one, rank_options}},
      {Benchmark::put_halo,
       "  fairlead bench put_halo -n 4 -m 1k:1m\n  fairlead bench put_halo -s pscw -c",
       {access_sizes, time_of_one, preset(&A::sync, "fence"), active_sync, full_of_several, rank_options}},
  };
}

}  // namespace

void define_bench(CLI::App& app, BenchArguments& arguments) {
  static const std::vector<Definition> families[] = {message_definitions(), layout_definitions(),
                                                     one_sided_definitions(), collective_definitions()};
  const BenchmarkKind& kind = *arguments.kind;
  arguments.ranks = kind.ranks;
  for (const std::vector<Definition>& family : families) {
    auto row = std::find_if(family.begin(), family.end(), [&](const Definition& each) {
      return each.id == kind.id && (!each.trait || (kind.*each.trait)());
    });
    if (row == family.end()) continue;
    for (const OptionGroup& define : row->options) define(app, arguments);
    std::string usage = "[options]";
    for (const CLI::Option* option : std::as_const(app).get_options())
      if (!option->nonpositional()) usage += fmt::format(" [{}]", option->get_type_name());
    set_up(app, usage, fmt::format(fmt::runtime(row->examples), kind.name));
    return;
  }
}

}  // namespace fairlead::tools
