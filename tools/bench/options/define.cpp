// SPDX-License-Identifier: Apache-2.0
//
// The options of the benchmarks of messages, datatypes and windows, in the order of the help.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "bench/options/option_groups.h"

namespace fairlead::tools {
namespace {

const char* const window_size = "-W,--window-size";

void define_probes(CLI::App& app, BenchArguments& a) {
  auto probe = app.add_flag_callback(
      "--probe", [&a] { a.probe = Probe::probe; },
      "Receivers do not know the length: MPI_Probe, MPI_Get_count, MPI_Recv.");
  app.add_flag_callback(
         "--mprobe", [&a] { a.probe = Probe::matched; }, "The same with MPI_Mprobe and MPI_Mrecv.")
      ->excludes(probe);
}

OptionGroup message_sizes(const char* note = "") {
  return sizes("Message sizes", note);
}
const OptionGroup sizes_from_empty = message_sizes(" 0:MAX begins with empty messages.");

const OptionGroup time_of_one = iterations(usual_messages);
const OptionGroup time_of_window = iterations(usual_windows);

const OptionGroup at_once = number(window_size, &A::window, 1, 65536, "Messages in flight at once.");

const OptionGroup placed = all_of(
    {arrivals, placement_option,
     option("--offset", "BYTES", &A::offset_text, "Offset of messages in their aligned buffers, in bytes.")});
// NCCL has no requests to start again.
const OptionGroup carried = all_of({placed, [](CLI::App& app, BenchArguments& a) {
                                      if (!a.kind->persistent) via_option(app, a);
                                    }});

const OptionGroup every_two =
    all_of({preset(&A::smallest, 8), preset(&A::largest, 64 << 20), preset(&A::size_range, ""),
            size_range("-m,--message-size",
                       "Sizes in bytes: MIN of latency, MAX of bandwidth; k, m and g may follow a number.",
                       "8:64m, or 8:256k on simulated GPUs"),
            time_of_window, preset(&A::window, 16), at_once, arrivals});

}  // namespace

const OptionGroup latency_options =
    all_of({sizes_from_empty, time_of_one, carried,
            flag("--fresh", &A::fresh, "New buffers in every round trip, untimed."), define_probes,
            full_of_one, rank_options});

const OptionGroup window_options =
    all_of({message_sizes(), time_of_window, at_once, carried, full_of_one, rank_options});

const OptionGroup multi_latency_options =
    all_of({sizes_from_empty, time_of_one, carried, full_of_one, rank_options});

const OptionGroup partitioned_options =
    all_of({message_sizes(" MIN is rounded up to a multiple of the partitions."), time_of_one, placed,
            number("-p,--partitions", &A::partitions, 1, 65536, "Partitions of a message, all of one size."),
            full_of_one, rank_options});

const OptionGroup latency_threads_options =
    all_of({message_sizes(), time_of_one, placed,
            number("-t,--threads", &A::threads, 1, 256, "Threads of each rank, each with a partner."),
            full_of_one, rank_options});

const OptionGroup init_options =
    all_of({flag("--context", &A::context,
                 "Also the time in which the GPU's driver then starts and makes a context for each rank, and "
                 "the sum of both."),
            rank_options});

const OptionGroup first_options = all_of(
    {message_sizes(), preset(&A::iterations, 50),
     number("-i,--iterations", &A::iterations, 3, most_iterations,
            "Round trips with the same new buffers: the first, the second, and later ones."),
     number("--rounds", &A::rounds, 1, 1000, "New buffers of each size; figures are medians over them."),
     carried, full_of_several, rank_options});

const OptionGroup enqueue_options =
    all_of({preset(&A::smallest, 8), preset(&A::largest, 1 << 20), preset(&A::size_range, "8:1m"),
            size_range("-m,--message-size",
                       "Message sizes in bytes, doubling from MIN to MAX; k, m and g may follow a number."),
            iterations({usual_steps, usual_steps}, "Steps of a chain."),
            number("--rounds", &A::rounds, 1, 1000, "Chains of each size; medians over them."), arrivals,
            rank_options});

const OptionGroup posted_options =
    all_of({preset(&A::size_range, "256:16k"),
            size_range("-N,--messages",
                       "Messages in flight at once, doubling from MIN to MAX; k and m may follow a number."),
            preset(&A::iterations, 5),
            number("-i,--iterations", &A::iterations, 1, most_iterations,
                   "Timed iterations of each number of messages."),
            placement_option, rank_options});

const CLI::Validator any_number = whole_number(std::numeric_limits<int64_t>::min());
const OptionGroup pairs_options = all_of(
    {option("COUNT", "COUNT", &A::count,
            "Message size per iteration in longs (8 bytes each); 0 or less: the default.", any_number,
            "134217728 (1 GiB)"),
     option("ALLOCATOR", "ALLOCATOR", &A::allocator,
            "d: device memory, h: pinned host memory, a: posix_memalign, any other letter: malloc; capitals, "
            "too."),
     option("MISALIGN", "MISALIGN", &A::misalign, "Offset of the buffers in longs; 0 or less: none.",
            any_number),
     option("--bytes", "SIZE", &A::packed_text,
            "All messages of a row together in bytes, in place of COUNT; k, m and g may follow.", {}, ""),
     [](CLI::App& app, BenchArguments& a) {
       app.add_flag_callback(
              "--device", [&a] { a.allocator = "d"; }, "Device memory, in place of ALLOCATOR.")
           ->excludes(app.get_option("ALLOCATOR"));
     },
     flag("--table", &A::usual_units,
          "Sizes in bytes, times in us, bandwidths in MB/s, as all other benchmarks print them."),
     option("--timeout", "SECONDS", &A::timeout_s,
            "Seconds; a stride ends with the first iteration that takes longer.", positive_number()),
     device_options, launch_options});

const OptionGroup all_pairs_options = all_of({every_two, full_of_several, rank_options});

const OptionGroup matrix_options = all_of(
    {every_two,
     repeated("--way", &A::ways, all_matrix_ways,
              "What to measure: mpi, messages of ranks with Fairlead; engine, the driver's copy; kernel, a "
              "copy by the GPU's cores; mpi-blit and engine-blit, the first two in processes whose driver "
              "copies by kernels (AMD GPUs: HSA_ENABLE_SDMA=0).",
              "mpi, engine and kernel"),
     preset(&A::output, ""),
     option("-o,--output", "FILE", &A::output,
            "Draw heat maps: a .png, .svg or .pdf, as `fairlead plot` does.", {}, ""),
     option("--map", "FILE", &A::map,
            "Write the order of GPUs for neighbouring ranks, as `fairlead run --map FILE` reads it.", {}, ""),
     anyway_option, no_preload("Messages of the MPI alone, without Fairlead."), mpi(), results_options});

const OptionGroup file_options =
    all_of({preset(&A::smallest, 64 << 10), preset(&A::largest, 64 << 20), preset(&A::size_range, "64k:64m"),
            size_range("-m,--message-size",
                       "Bytes of each rank, doubling from MIN to MAX; k, m and g may follow a number."),
            time_of_window, validation("the bytes that each rank reads back"), placement_option,
            preset(&A::file, "fairlead-bench.tmp"),
            option("--file", "FILE", &A::file,
                   "New file to write and read, on the file system to be measured; deleted at the end."),
            full_of_several, rank_options});

const OptionGroup copy_options =
    all_of({message_sizes(), time_of_one, at_once, arrivals, full_of_several, results_options});

const OptionGroup host_overhead_options = all_of(
    {number("--rounds", &A::rounds, 1, 1000, "Pairs of runs, one with and one without Fairlead."),
     number("-i,--iterations", &A::iterations, 1, most_iterations, "Timed round trips of each run.", "50000"),
     results_options, mpi()});

namespace {

const OptionGroup time_of_layout = iterations(usual_messages, "Timed iterations of each row.");

const OptionGroup layouts_arrive = all_of(
    {time_of_layout,
     validation("the bytes that came, and that the gaps between them remain, after the timed run and after "
                "a further iteration with new data"),
     placement_option});

const OptionGroup end_of_layouts =
    all_of({preset(&A::timeout_s, 5),
            option("--timeout", "SECONDS", &A::timeout_s,
                   "Seconds that the iterations of each figure may take; one that takes longer is the last.",
                   positive_number()),
            rank_options});

}  // namespace

const OptionGroup pack_options = all_of(
    {preset(&A::smallest, 8), preset(&A::largest, 4 << 10), preset(&A::size_range, "8:4k"),
     size_range("-m,--message-size",
                "Bytes of a block, doubling from MIN to MAX; k, m and g may follow a number."),
     time_of_layout,
     validation("the packed and the unpacked bytes, and that the gaps between these remain, in "
                "further calls with new data"),
     placement_option,
     option("--bytes", "SIZE", &A::packed_text, "Packed bytes of a call; each has as many blocks as fit.", {},
            "64m, or 1m on simulated GPUs"),
     number("--stride", &A::stride, 1, 64, "From one block to the next, in blocks."),
     option("--line", "BYTES", &A::line,
            "Bytes of a cache line, of which the copy moves as many as the blocks and the packed bytes "
            "lie in.",
            whole_number(1, 4096)),
     end_of_layouts});

const OptionGroup halo_options =
    all_of({layouts_arrive, number("-N,--edge", &A::edge, 2, 4096, "Doubles along each edge of the cube."),
            end_of_layouts});

const OptionGroup datatype_options =
    all_of({layouts_arrive,
            number("--blocks", &A::blocks, 1, 100'000'000,
                   "Blocks of 8 bytes in a message; of subarray the greatest cube that has no more."),
            repeated("-T,--type", &A::types, layout_names,
                     fmt::format("What to measure: {}.", fmt::join(layout_names, ", "))),
            number("--rounds", &A::rounds, 1, 1000, "New types of each layout, whose first use is timed."),
            end_of_layouts});

namespace {

OptionGroup access_sizes(const char* note = "") {
  return sizes("Sizes of accesses", note);
}

const OptionGroup accesses_at_once =
    all_of({access_sizes(), time_of_window,
            number(window_size, &A::window, 1, 65536,
                   "Accesses of a step, each to bytes of its own, which complete together.")});

OptionGroup synchronized_by(const Words& syncs, const char* help) {
  return all_of(
      {validation("what each size left in the windows and brought back, in the timed run, where it can be "
                  "told, and in further steps with new data"),
       placement_option,
       option("-w,--win-option", "KIND", &A::window_kind,
              "Windows of MPI_Win_create, MPI_Win_allocate, which may take host memory only, or "
              "MPI_Win_create_dynamic: create, allocate or dynamic.",
              one_of(window_kinds)),
       option("-s,--sync-option", "KIND", &A::sync, help, one_of(syncs))});
}

const OptionGroup any_sync =
    synchronized_by(all_syncs,
                    "What completes the accesses: flush or flush_local, inside one lock; lock or lock_all, a "
                    "lock of their own and its end; fence; pscw (post, start, complete, wait).");

const OptionGroup active_sync = synchronized_by(
    active_syncs, "What completes the accesses: fence, or pscw (post, start, complete, wait).");

const OptionGroup beside_copy =
    flag("--raw", &A::raw,
         "Also what rank 0 takes for the driver's copy of as many bytes between the two GPUs, and the "
         "wait for it.");

const OptionGroup beside_copies =
    flag("--raw", &A::raw,
         "Also the bandwidth of the driver's copies between the two GPUs, as many and as large.");

}  // namespace

const OptionGroup word_options =
    all_of({preset(&A::smallest, word_bytes), preset(&A::largest, word_bytes), preset(&A::size_range, ""),
            iterations({usual_messages.small, usual_messages.small}), any_sync,
            flag("--raw", &A::raw, "Also what rank 0 takes to launch an empty kernel and to wait for it."),
            full_of_one, rank_options});

const OptionGroup accumulate_options =
    all_of({access_sizes(" Sizes below one element begin with that."), time_of_one, any_sync,
            elements("float"), reduction_option, beside_copy, full_of_one, rank_options});

const OptionGroup access_options =
    all_of({access_sizes(), time_of_one, any_sync, beside_copy, full_of_one, rank_options});

const OptionGroup access_window_options =
    all_of({accesses_at_once, any_sync, beside_copies, full_of_one, rank_options});

const OptionGroup both_ways_options = all_of(
    {accesses_at_once, preset(&A::sync, "pscw"), active_sync, beside_copies, full_of_one, rank_options});

const OptionGroup put_halo_options = all_of(
    {access_sizes(), time_of_one, preset(&A::sync, "fence"), active_sync, full_of_several, rank_options});

}  // namespace fairlead::tools
