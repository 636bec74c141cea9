// SPDX-License-Identifier: Apache-2.0
//
// The options that each benchmark has, and what their help says.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "bench/arguments.h"
#include "coll/algorithms.h"
#include "coll/collective_slot.h"
#include "common/command_line.h"
#include "common/places.h"

namespace fairlead::tools {
namespace {

constexpr int64_t most_iterations = 1'000'000'000;
constexpr int64_t any_number = std::numeric_limits<int64_t>::min();

UsualIterations usual_of(const BenchArguments& a) {
  if (a.kind->collectives()) return usual_collectives;
  return a.kind->one_message() || a.kind->id == Benchmark::copy || a.kind->datatypes() ? usual_messages
                                                                                       : usual_windows;
}

CLI::Validator size_range() {
  return CLI::Validator(
      [](const std::string& text) {
        BenchArguments scratch;
        return read_range(text, &scratch.smallest, &scratch.largest);
      },
      "");
}

void define_range(CLI::App& app, BenchArguments& a) {
  if (a.kind->id == Benchmark::pack) {
    a.smallest = 8, a.largest = 4 << 10;
    a.size_range = "8:4k";
    app.add_option("-m,--message-size", a.size_range,
                   "Bytes of a block, doubling from MIN to MAX; k, m and g may follow a number.")
        ->type_name("MIN:MAX")
        ->check(size_range())
        ->capture_default_str();
    return;
  }
  if (a.kind->two_sizes()) {
    auto option =
        app.add_option("-m,--message-size", a.size_range,
                       "Sizes in bytes: MIN of latency, MAX of bandwidth; k, m and g may follow a number.")
            ->type_name("MIN:MAX")
            ->check(size_range());
    a.smallest = 8, a.largest = 64 << 20;
    a.size_range.clear();
    option->default_str("8:64m, or 8:256k on simulated GPUs");
    return;
  }
  std::string smallest =
      a.kind->collectives() || a.kind->combines() ? " Sizes below one element begin with that."
      : a.kind->id == Benchmark::partitioned      ? " MIN is rounded up to a multiple of the partitions."
      : a.kind->id == Benchmark::latency || a.kind->id == Benchmark::multi_latency
          ? " 0:MAX begins with empty messages."
          : "";
  app.add_option("-m,--message-size", a.size_range,
                 std::string(a.kind->one_sided() ? "Sizes of accesses" : "Message sizes") +
                     " in bytes, doubling from MIN to MAX; k, m and g may follow a number. MIN: ends "
                     "at 4m; MAX and :MAX begin at 1." +
                     smallest)
      ->type_name("MIN:MAX")
      ->check(size_range())
      ->capture_default_str();
}

void define_first(CLI::App& app, BenchArguments& a) {
  a.iterations = 50;
  app.add_option("-i,--iterations", a.iterations,
                 "Round trips with the same new buffers: the first, the second, and later ones.")
      ->type_name("N")
      ->check(whole_number(3, most_iterations))
      ->capture_default_str();
  app.add_option("--rounds", a.rounds, "New buffers of each size; figures are medians over them.")
      ->type_name("N")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
}

void define_iterations(CLI::App& app, BenchArguments& a) {
  if (a.kind->id == Benchmark::first) {
    define_first(app, a);
    return;
  }
  UsualIterations usual = usual_of(a);
  std::string times = a.kind->barrier() || a.kind->one_word()
                          ? std::to_string(usual.small)
                          : fmt::format("{} up to 8 KiB, {} above", usual.small, usual.large);
  app.add_option("-i,--iterations", a.iterations,
                 a.kind->datatypes() ? "Timed iterations of each row." : "Timed iterations of each size.")
      ->type_name("N")
      ->check(whole_number(1, most_iterations))
      ->default_str(times + "; fewer where they would take over 1 s (0.1 s on simulated GPUs)");
  app.add_option("-x,--warmup", a.warmup, "Iterations before the timed ones.")
      ->type_name("N")
      ->check(whole_number(0, most_iterations))
      ->default_str("a hundredth of the timed ones, 10 at least");
  if (a.kind->two_sizes()) a.window = 16;
  if (!a.kind->one_message() && !a.kind->collectives() && !a.kind->datatypes())
    app.add_option("-W,--window-size", a.window,
                   a.kind->one_sided() ? "Accesses of a step, each to bytes of its own, which end together."
                                       : "Messages in flight at once.")
        ->type_name("N")
        ->check(whole_number(1, 65536))
        ->capture_default_str();
}

void define_validation(CLI::App& app, BenchArguments& a) {
  app.add_flag(
      "-c,--validation", a.validate,
      a.kind->id == Benchmark::pack ? "Check the packed and the unpacked bytes, and that the gaps between "
                                      "these remain, in further calls "
                                      "with new data; adds a column and exits with 1 when bytes are wrong."
      : a.kind->one_sided()         ? "Check what each size left in the windows and brought back, in the "
                                      "timed run, where it can be told, and in further steps with new data; "
                                      "adds a column and exits with 1 when it is wrong."
      : a.kind->datatypes()
          ? "Check the bytes that came, and that the gaps between them remain, after the timed run and after "
            "a further iteration with new data; adds a column and exits with 1 when bytes are wrong."
          : "Check the received bytes of each size, in the timed run and in further iterations with new "
            "data; "
            "adds a column and exits with 1 when bytes are wrong.");
}

void define_via(CLI::App& app, BenchArguments& a) {
  app.add_option(
         "--via", a.via,
         "What carries the messages: mpi, or nccl (NCCL or RCCL, found in NCCL_HOME/lib or by the loader).")
      ->type_name("NAME")
      ->check(one_of({"mpi", "nccl"}))
      ->capture_default_str();
}

// Checked by hand afterwards: the two letters have one meaning each.
void define_placement(CLI::App& app, BenchArguments& a) {
  app.add_option("PLACEMENT", a.placement,
                 fmt::format("Memory of {}: D device, H host, M managed.", owners_of(*a.kind)))
      ->check(suggested(placements))
      ->default_str("D D");
}

void define_posted(CLI::App& app, BenchArguments& a) {
  a.size_range = "256:16k";
  app.add_option(
         "-N,--messages", a.size_range,
         "Messages that are under way at once, doubling from MIN to MAX; k and m may follow a number.")
      ->type_name("MIN:MAX")
      ->check(size_range())
      ->capture_default_str();
  a.iterations = 5;
  app.add_option("-i,--iterations", a.iterations, "Timed iterations of each number of messages.")
      ->type_name("N")
      ->check(whole_number(1, most_iterations))
      ->capture_default_str();
  define_placement(app, a);
}

void define_memory_limit(CLI::App& app, BenchArguments& a) {
  app.add_option("-M,--mem-limit", a.memory_text,
                 "Bytes that the buffers of a rank may take; sizes that need more are left out.")
      ->type_name("SIZE")
      ->capture_default_str();
}

void define_elements(CLI::App& app, BenchArguments& a, bool reduces) {
  a.element = reduces ? "float" : "char";
  app.add_option("-T,--type", a.element, "Elements: char, int, float or double.")
      ->type_name("TYPE")
      ->check(one_of({"char", "int", "float", "double"}))
      ->capture_default_str();
  if (reduces)
    app.add_option("-o,--operation", a.reduction, "Reduction: sum, prod, min or max.")
        ->type_name("OP")
        ->check(one_of({"sum", "prod", "min", "max"}))
        ->capture_default_str();
}

void define_collective(CLI::App& app, BenchArguments& a) {
  const CollectiveKind& kind = a.collective();
  app.add_flag("-f,--full", a.full,
               a.kind->id == Benchmark::overlap
                   ? "Full statistics: also the times of starting, testing and waiting, the least and the "
                     "greatest pure communication time of a rank, and the iterations."
                   : "Full statistics: also the least and the greatest mean of a rank, percentiles of the "
                     "means over the ranks, and the iterations.");
  if (a.kind->id == Benchmark::overlap)
    app.add_option("-t,--num-test-calls", a.tests, "Calls of MPI_Test during the computation.")
        ->type_name("N")
        ->check(whole_number(0, most_iterations))
        ->capture_default_str();
  define_via(app, a);
  if (a.kind->barrier()) return;  // of ranks, not of memory
  define_placement(app, a);
  define_elements(app, a, kind.reduces);
  if (rooted(kind))
    app.add_option("-k,--root-rank", a.root_text, "The root; rotate: the next rank in every call.")
        ->type_name("RANK")
        ->capture_default_str();
  define_memory_limit(app, a);
}

void define_sizes(CLI::App& app, BenchArguments& a) {
  const bool sized = !a.kind->barrier() && !a.kind->one_word() && a.kind->id != Benchmark::halo &&
                     a.kind->id != Benchmark::datatype;
  if (sized) define_range(app, a);
  if (a.kind->one_word()) {
    a.smallest = a.largest = word_bytes;
    a.size_range.clear();
  }
  define_iterations(app, a);
  if (!a.kind->barrier()) define_validation(app, a);
}

void define_device(CLI::App& app, BenchArguments& a) {
  app.add_option("-d,--accelerator", a.device, "GPU provider: cuda, rocm or sim. Left out, what there is.")
      ->type_name("KIND")
      ->check(one_of({"cuda", "rocm", "sim"}));
  app.add_option("--sim", a.sim, "Run on N simulated GPUs, as -d sim.")
      ->type_name("N")
      ->check(whole_number(1, 64));
}

void define_mpi(CLI::App& app, BenchArguments& a, const char* initial = "the first this build has") {
  app.add_option("--mpi", a.mpi,
                 "MPI to use: openmpi, mpich or abi, or the path of a launcher, whose MPI is used then.")
      ->type_name("MPI")
      ->check(suggested({"openmpi", "mpich", "abi", "@file"}))
      ->default_str(initial);
}

void define_launch(CLI::App& app, BenchArguments& a) {
  app.add_option("-n,--ranks,--np", a.ranks,
                 "Ranks to launch; -np N too. Inside a launched job its ranks are used instead.")
      ->type_name("N")
      ->check(whole_number(1, 65536))
      ->capture_default_str();
  define_mpi(app, a, "the first this build has, or the job's own");
  app.add_flag_callback(
      "--no-preload", [&a] { a.preload = false; }, "Run on the MPI alone, without Fairlead.");
}

void define_tune(CLI::App& app, BenchArguments& a) {
  a.size_range = "8:64m";
  define_range(app, a);
  define_iterations(app, a);
  define_memory_limit(app, a);
  app.add_option("COLLECTIVE", a.collectives,
                 "What to tune: " + fmt::format("{}.", fmt::join(tunable(), ", ")))
      ->check(one_of(tunable()))
      ->default_str("all");
  app.add_option("-o,--output", a.output, "The file to write.")->type_name("FILE")->capture_default_str();
  app.add_option(
         "-n,--ranks,--np", a.rank_counts,
         "Numbers of ranks to measure with, separated by commas; the rules of each hold up to the next.")
      ->type_name("N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(2, coll::max_members))
      ->default_str("a rank for each GPU, 2 at least");
  define_mpi(app, a);
}

void define_matrix(CLI::App& app, BenchArguments& a) {
  a.output.clear();
  app.add_option("--way", a.ways,
                 "What to measure: mpi, messages of ranks with Fairlead; engine, the driver's copy; kernel, "
                 "a copy by "
                 "the GPU's cores. May be repeated.")
      ->type_name("NAME")
      ->check(one_of(matrix_ways))
      ->allow_extra_args(false)
      ->default_str("all");
  app.add_option("-o,--output", a.output, "Draw heat maps: a .png or .svg, as `fairlead plot` does.")
      ->type_name("FILE");
  app.add_option("--map", a.map,
                 "Write the order of GPUs for neighbouring ranks, as `fairlead run --map FILE` reads it.")
      ->type_name("FILE");
  app.add_flag_callback(
      "--no-preload", [&a] { a.preload = false; }, "Messages of the MPI alone, without Fairlead.");
  define_mpi(app, a);
}

void define_pairs(CLI::App& app, BenchArguments& a) {
  app.add_option("COUNT", a.count,
                 "Message size per iteration in longs (8 bytes each); 0 or less: the default.")
      ->check(whole_number(any_number))
      ->default_str("134217728 (1 GiB)");
  app.add_option("ALLOCATOR", a.allocator,
                 "One letter, d: device memory, h: pinned host memory, a: posix_memalign, any other, as m: "
                 "malloc. D, H and A are d, h and a.")
      ->capture_default_str();
  app.add_option("MISALIGN", a.misalign, "Longs by which the buffers start late; 0 or less: none.")
      ->check(whole_number(any_number))
      ->capture_default_str();
  app.add_option("--timeout", a.timeout_s,
                 "Seconds; a stride ends with the first iteration that takes longer.")
      ->type_name("SECONDS")
      ->check(positive_number())
      ->capture_default_str();
}

void define_datatypes(CLI::App& app, BenchArguments& a) {
  define_placement(app, a);
  if (a.kind->id == Benchmark::pack) {
    app.add_option("--bytes", a.packed_text, "Packed bytes of a call; each has as many blocks as fit.")
        ->type_name("SIZE")
        ->default_str("64m, or 1m on simulated GPUs");
    app.add_option("--stride", a.stride, "From one block to the next, in blocks.")
        ->type_name("N")
        ->check(whole_number(1, 64))
        ->capture_default_str();
    app.add_option(
           "--line", a.line,
           "Bytes of a cache line, of which the copy moves as many as the blocks and the packed bytes "
           "lie in.")
        ->type_name("BYTES")
        ->check(whole_number(1, 4096))
        ->capture_default_str();
  }
  if (a.kind->id == Benchmark::halo)
    app.add_option("-N,--edge", a.edge, "Doubles along each edge of the cube.")
        ->type_name("N")
        ->check(whole_number(2, 4096))
        ->capture_default_str();
  if (a.kind->id == Benchmark::datatype) {
    app.add_option("--blocks", a.blocks,
                   "Blocks of 8 bytes in a message; of subarray the greatest cube that has no more.")
        ->type_name("N")
        ->check(whole_number(1, 100'000'000))
        ->capture_default_str();
    app.add_option("-T,--type", a.types,
                   fmt::format("What to measure: {}. May be repeated.", fmt::join(layout_names, ", ")))
        ->type_name("NAME")
        ->check(one_of(layout_names))
        ->allow_extra_args(false)
        ->default_str("all");
    app.add_option("--rounds", a.rounds, "New types of each layout, whose first use is timed.")
        ->type_name("N")
        ->check(whole_number(1, 1000))
        ->capture_default_str();
  }
  a.timeout_s = 5;
  app.add_option("--timeout", a.timeout_s,
                 "Seconds that the iterations of each figure may take; one that takes longer is the last.")
      ->type_name("SECONDS")
      ->check(positive_number())
      ->capture_default_str();
}

void define_messages(CLI::App& app, BenchArguments& a) {
  const Benchmark id = a.kind->id;
  define_placement(app, a);
  app.add_option("--offset", a.offset_text, "Bytes by which messages start late in their aligned buffers.")
      ->type_name("BYTES")
      ->capture_default_str();
  if (id != Benchmark::partitioned) define_via(app, a);
  if (id == Benchmark::partitioned)
    app.add_option("-p,--partitions", a.partitions, "Partitions of a message, all of one size.")
        ->type_name("N")
        ->check(whole_number(1, 65536))
        ->capture_default_str();
  if (id != Benchmark::latency) return;
  app.add_flag("--fresh", a.fresh,
               "Both ranks allocate their buffers anew for every round trip, which is timed without that.");
  auto probe = app.add_flag_callback(
      "--probe", [&a] { a.probe = Probe::probe; },
      "Receivers do not know the length: MPI_Probe, MPI_Get_count, MPI_Recv.");
  app.add_flag_callback(
         "--mprobe", [&a] { a.probe = Probe::matched; }, "The same with MPI_Mprobe and MPI_Mrecv.")
      ->excludes(probe);
}

void define_one_sided(CLI::App& app, BenchArguments& a) {
  const Benchmark id = a.kind->id;
  const bool active = id == Benchmark::access_both_ways || id == Benchmark::put_halo;
  define_placement(app, a);
  app.add_option("-w,--win-option", a.window_kind,
                 "Windows of MPI_Win_create, MPI_Win_allocate, which may take host memory only, or "
                 "MPI_Win_create_dynamic: create, allocate or dynamic.")
      ->type_name("KIND")
      ->check(one_of(window_kinds))
      ->capture_default_str();
  if (active) a.sync = id == Benchmark::put_halo ? "fence" : "pscw";
  app.add_option("-s,--sync-option", a.sync,
                 active
                     ? "What ends the accesses: fence, or pscw (post, start, complete, wait)."
                     : "What ends the accesses: flush or flush_local, inside one lock; lock or lock_all, a "
                       "lock of their own and its end; fence; pscw (post, start, complete, wait).")
      ->type_name("KIND")
      ->check(one_of(active ? active_syncs : all_syncs))
      ->capture_default_str();
  if (a.kind->combines()) define_elements(app, a, true);
  if (id == Benchmark::put_halo) return;
  app.add_flag(
      "--raw", a.raw,
      a.kind->one_word() ? "Also what rank 0 takes to launch an empty kernel and to wait for it."
      : id == Benchmark::access_latency
          ? "Also what rank 0 takes for the driver's copy of as many bytes between the two GPUs, and the "
            "wait for it."
          : "Also the bandwidth of the driver's copies between the two GPUs, as many and as large.");
}

void define_full(CLI::App& app, BenchArguments& a) {
  app.add_flag(
      "-f,--full", a.full,
      a.kind->one_quantity()
          ? "Full statistics: the mean, the least, the median, the slowest hundredth and the greatest "
            "over the iterations, in place of the median."
          : "Full statistics: also the slowest hundredth of the iterations.");
}

void define_json(CLI::App& app, BenchArguments& a) {
  app.add_option("--json", a.json, "Write the results to FILE as JSON; -: to stdout, in place of the table.")
      ->type_name("FILE");
}

const char* usage_of(const BenchArguments& a) {
  if (a.kind->barrier()) return "[options]";
  switch (a.kind->id) {
    case Benchmark::pairs:
      return "[options] [COUNT] [ALLOCATOR] [MISALIGN]";
    case Benchmark::all_pairs:
    case Benchmark::copy:
    case Benchmark::host_overhead:
    case Benchmark::matrix:
      return "[options]";
    case Benchmark::tune:
      return "[options] [COLLECTIVE ...]";
    default:
      return "[options] [D|H|M D|H|M]";
  }
}

std::string examples_of(const BenchArguments& a) {
  switch (a.kind->id) {
    case Benchmark::collective:
    case Benchmark::overlap:
      return fmt::format("  fairlead bench {0} -n 8 -f\n  fairlead run -n 4 --sim 4 fairlead bench {0}{1}",
                         a.kind->name, a.kind->barrier() ? "" : " -m 4:1m -c D D");
    case Benchmark::latency:
      return "  fairlead bench latency -m 8:64k -c\n"
             "  fairlead bench latency -f D H         # from device to host memory and back\n"
             "  fairlead bench latency --mprobe --offset 1";
    case Benchmark::bandwidth:
      return "  fairlead bench bw -m 64k:64m D D --json bw.json\n  fairlead bench bw --via nccl";
    case Benchmark::bidirectional:
      return "  fairlead bench bibw -W 16 -c";
    case Benchmark::multi_bandwidth:
      return "  fairlead bench mbw_mr -n 8 --json mbw_mr.json\n  srun -n 16 fairlead bench mbw_mr -m 8:1m H "
             "D";
    case Benchmark::multi_latency:
      return "  fairlead bench multi_lat -n 8 -f\n  srun -n 16 fairlead bench multi_lat -m 8:64k";
    case Benchmark::partitioned:
      return "  fairlead bench partitioned -p 16 -m 64k:64m\n  fairlead bench partitioned -c D H";
    case Benchmark::first:
      return "  fairlead bench first -m 4k:64m --json first.json\n"
             "  FAIRLEAD_MAP_AFTER=0 fairlead bench first";
    case Benchmark::posted:
      return "  fairlead bench posted\n  fairlead bench posted -N 16k:64k D H --json posted.json";
    case Benchmark::pairs:
      return "  fairlead bench pairs -n 4 1048576 d\n  srun -n 16 fairlead bench pairs 0 d > pairs.dat";
    case Benchmark::all_pairs:
      return "  fairlead bench all_pairs -n 8\n  srun -n 16 fairlead bench all_pairs -m 8:16m";
    case Benchmark::matrix:
      return "  fairlead matrix\n  fairlead matrix -o matrix.png --map gpus.map --json matrix.json\n"
             "  fairlead run -n 8 --map gpus.map ./my_mpi_program";
    case Benchmark::pack:
      return "  fairlead bench pack --json pack.json\n  fairlead bench pack -m 16:1k --stride 4 -c D H";
    case Benchmark::halo:
      return "  fairlead bench halo -c\n  fairlead bench halo -N 256 --no-preload --mpi openmpi";
    case Benchmark::datatype:
      return "  fairlead bench datatype --json datatype.json\n"
             "  fairlead bench datatype -T indexed -T vector --blocks 1000 D H";
    case Benchmark::access_latency:
      return fmt::format(
          "  fairlead bench {0}{1} -s lock -c\n  fairlead bench {0}{1} --raw D D\n"
          "  fairlead bench {0}{1} -w allocate H H",
          a.kind->name, a.kind->one_word() ? "" : " -m 8:64k");
    case Benchmark::access_bandwidth:
      return fmt::format("  fairlead bench {0} -m 64k:64m -W 16 --raw\n  fairlead bench {0} -s fence -c D H",
                         a.kind->name);
    case Benchmark::access_both_ways:
      return "  fairlead bench put_bibw -m 64k:64m -W 16 --raw\n  fairlead bench put_bibw -s fence -c";
    case Benchmark::put_halo:
      return "  fairlead bench put_halo -n 4 -m 1k:1m\n  fairlead bench put_halo -s pscw -c";
    case Benchmark::copy:
      return "  fairlead bench copy -m 8:256m";
    case Benchmark::host_overhead:
      return "  fairlead bench host_overhead --rounds 9";
    case Benchmark::tune:
      return "  fairlead bench tune -o my.tuning\n  fairlead bench tune -n 2,4 -m 8:1m allreduce bcast";
  }
  return "";
}

}  // namespace

void define_bench(CLI::App& app, BenchArguments& arguments) {
  Benchmark id = arguments.kind->id;
  arguments.ranks = arguments.kind->ranks;
  if (id == Benchmark::pairs)
    define_pairs(app, arguments);
  else if (id == Benchmark::posted)
    define_posted(app, arguments);
  else if (id == Benchmark::tune)
    define_tune(app, arguments);
  else if (id != Benchmark::host_overhead)
    define_sizes(app, arguments);
  if (id == Benchmark::matrix) define_matrix(app, arguments);
  if (arguments.kind->messages()) define_messages(app, arguments);
  if (arguments.kind->datatypes()) define_datatypes(app, arguments);
  if (arguments.kind->one_sided()) define_one_sided(app, arguments);
  if (arguments.kind->collective) define_collective(app, arguments);
  if (id == Benchmark::host_overhead) {
    app.add_option("--rounds", arguments.rounds, "Pairs of runs, one with and one without Fairlead.")
        ->type_name("N")
        ->check(whole_number(1, 1000))
        ->capture_default_str();
    app.add_option("-i,--iterations", arguments.iterations, "Timed round trips of each run.")
        ->type_name("N")
        ->check(whole_number(1, most_iterations))
        ->default_str("50000");
  }
  if (arguments.kind->messages() || arguments.kind->one_sided() || id == Benchmark::copy ||
      id == Benchmark::all_pairs)
    define_full(app, arguments);
  define_device(app, arguments);
  if (id != Benchmark::pairs) define_json(app, arguments);
  if (arguments.kind->uses_mpi) define_launch(app, arguments);
  if (id == Benchmark::host_overhead) define_mpi(app, arguments);
  set_up(app, usage_of(arguments), examples_of(arguments));
}

}  // namespace fairlead::tools
