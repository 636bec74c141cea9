// SPDX-License-Identifier: Apache-2.0

#include "bench/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <string_view>

#include "base/options.h"
#include "coll/algorithms.h"
#include "coll/meeting.h"
#include "common/command_line.h"
#include "common/places.h"
#include "device/runtime.h"

namespace fairlead::tools {
namespace {

const std::vector<std::string> placements = {"D", "H", "M"};
const std::vector<std::string> matrix_ways = {"mpi", "engine", "kernel"};
constexpr int64_t most_iterations = 1'000'000'000;
constexpr int64_t any_number = std::numeric_limits<int64_t>::min();

// "MIN:MAX", "MIN:", ":MAX" or "MAX", sizes in bytes with k, m or g. Returns what is wrong, or nothing.
std::string read_range(const std::string& text, uint64_t* smallest, uint64_t* largest) {
  size_t colon = text.find(':');
  std::string low = colon == std::string::npos ? "" : text.substr(0, colon);
  std::string high = colon == std::string::npos ? text : text.substr(colon + 1);
  std::string wrong = low.empty() && high.empty() ? "accepted: MIN:MAX, MIN:, :MAX or MAX in bytes" : "";
  if (wrong.empty() && !low.empty()) wrong = parse_bytes(low, smallest);
  if (wrong.empty() && !high.empty()) wrong = parse_bytes(high, largest);
  if (!wrong.empty()) return fmt::format("'{}' is not accepted; {}", text, wrong);
  if (*smallest > *largest)
    return fmt::format("'{}' is not accepted; the smallest size, {}{}, is above the largest, {}{}", text,
                       *smallest, low.empty() ? " (the default)" : "", *largest,
                       high.empty() ? " (the default)" : "");
  return {};
}

bool is_collective(const BenchArguments& a) {
  return a.kind->collective.has_value();
}
// One of them, or all in turn.
bool measures_collectives(const BenchArguments& a) {
  return is_collective(a) || a.kind->id == Benchmark::tune;
}
bool is_barrier(const BenchArguments& a) {
  return a.kind->collective == Collective::barrier;
}
// Sends messages between two ranks, with the placement letters of both.
bool is_sweep(const BenchArguments& a) {
  return a.kind->uses_mpi && a.kind->id != Benchmark::pairs && a.kind->id != Benchmark::all_pairs &&
         !is_collective(a);
}
// Takes one size for latency and one for bandwidth.
bool is_of_all_pairs(const BenchArguments& a) {
  return a.kind->id == Benchmark::all_pairs || a.kind->id == Benchmark::matrix;
}

// Collectives that have a benchmark and algorithms.
std::vector<std::string> tunable() {
  std::vector<std::string> names;
  for (const coll::FamilyRow& family : coll::families)
    for (const BenchmarkKind& kind : benchmark_kinds)
      if (family.name == kind.name) names.push_back(kind.name);
  return names;
}

UsualIterations usual_of(const BenchArguments& a) {
  if (measures_collectives(a)) return usual_collectives;
  return a.kind->id == Benchmark::latency || a.kind->id == Benchmark::copy ? usual_messages : usual_windows;
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
  if (is_of_all_pairs(a)) {
    auto option =
        app.add_option("-m,--message-size", a.size_range,
                       "Sizes in bytes: MIN of latency, MAX of bandwidth; k, m and g may follow a number.")
            ->type_name("MIN:MAX")
            ->check(size_range());
    a.smallest = 8, a.largest = 64 << 20;
    a.size_range = "8:64m";
    option->capture_default_str();
    if (a.kind->id == Benchmark::matrix) {
      a.size_range.clear();
      option->default_str("8:64m, or 8:256k on simulated GPUs");
    }
    return;
  }
  std::string smallest = measures_collectives(a) ? "Sizes below one element begin with that."
                                                 : "0:MAX begins with empty messages (latency only).";
  app.add_option(
         "-m,--message-size", a.size_range,
         "Message sizes in bytes, doubling from MIN to MAX; k, m and g may follow a number. MIN: ends "
         "at 4m; MAX and :MAX begin at 1. " +
             smallest)
      ->type_name("MIN:MAX")
      ->check(size_range())
      ->capture_default_str();
}

void define_iterations(CLI::App& app, BenchArguments& a) {
  UsualIterations usual = usual_of(a);
  std::string times = is_barrier(a) ? std::to_string(usual.small)
                                    : fmt::format("{} up to 8 KiB, {} above", usual.small, usual.large);
  app.add_option("-i,--iterations", a.iterations, "Timed iterations of each size.")
      ->type_name("N")
      ->check(whole_number(1, most_iterations))
      ->default_str(times + "; fewer where a size would take over 1 s (0.1 s on simulated GPUs)");
  app.add_option("-x,--warmup", a.warmup, "Iterations before the timed ones, of each size.")
      ->type_name("N")
      ->check(whole_number(0, most_iterations))
      ->default_str("a hundredth of the timed ones, 10 at least");
  if (is_of_all_pairs(a)) a.window = 16;
  if (a.kind->id != Benchmark::latency && !measures_collectives(a))
    app.add_option("-W,--window-size", a.window, "Messages in flight at once.")
        ->type_name("N")
        ->check(whole_number(1, 65536))
        ->capture_default_str();
}

void define_validation(CLI::App& app, BenchArguments& a) {
  app.add_flag(
      "-c,--validation", a.validate,
      "Check the received bytes of each size, in the timed run and in further iterations with new data; adds "
      "a column and exits with 1 when bytes are wrong.");
}

void define_via(CLI::App& app, BenchArguments& a) {
  app.add_option(
         "--via", a.via,
         "What carries the messages: mpi, or nccl (NCCL or RCCL, found in NCCL_HOME/lib or by the loader).")
      ->type_name("NAME")
      ->check(one_of({"mpi", "nccl"}))
      ->capture_default_str();
}

void define_memory_limit(CLI::App& app, BenchArguments& a) {
  app.add_option("-M,--mem-limit", a.memory_text,
                 "Bytes that the buffers of a rank may take; sizes that need more are left out.")
      ->type_name("SIZE")
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
  if (is_barrier(a)) return;  // of ranks, not of memory
  a.element = kind.reduces ? "float" : "char";
  app.add_option("PLACEMENT", a.placement,
                 "Memory of rank 0 and of all other ranks: D device, H host, M managed.")
      ->check(suggested(placements))
      ->default_str("D D");
  app.add_option("-T,--type", a.element, "Elements: char, int, float or double.")
      ->type_name("TYPE")
      ->check(one_of({"char", "int", "float", "double"}))
      ->capture_default_str();
  if (kind.reduces)
    app.add_option("-o,--operation", a.reduction, "Reduction: sum, prod, min or max.")
        ->type_name("OP")
        ->check(one_of({"sum", "prod", "min", "max"}))
        ->capture_default_str();
  if (rooted(kind))
    app.add_option("-k,--root-rank", a.root_text, "The root; rotate: the next rank in every call.")
        ->type_name("RANK")
        ->capture_default_str();
  define_memory_limit(app, a);
}

void define_sizes(CLI::App& app, BenchArguments& a) {
  if (!is_barrier(a)) define_range(app, a);
  define_iterations(app, a);
  if (!is_barrier(a)) define_validation(app, a);
}

void define_device(CLI::App& app, BenchArguments& a) {
  app.add_option("-d,--accelerator", a.device, "GPU provider: cuda, rocm or sim. Left out, what there is.")
      ->type_name("KIND")
      ->check(one_of({"cuda", "rocm", "sim"}));
  app.add_option("--sim", a.sim, "Run on N simulated GPUs, as -d sim.")
      ->type_name("N")
      ->check(whole_number(1, 64));
}

void define_launch(CLI::App& app, BenchArguments& a) {
  app.add_option("-n,--ranks,--np", a.ranks,
                 "Ranks to launch; -np N too. Inside a launched job its ranks are used instead.")
      ->type_name("N")
      ->check(whole_number(1, 65536))
      ->capture_default_str();
  app.add_option("--mpi", a.mpi, "MPI to use: openmpi, mpich or abi.")
      ->type_name("ABI")
      ->check(one_of(mpi_abis))
      ->default_str("the first this build has, or the job's own");
  app.add_flag_callback(
      "--no-preload", [&a] { a.preload = false; }, "Run on the MPI alone, without Fairlead.");
}

void define_abi(CLI::App& app, BenchArguments& a) {
  app.add_option("--mpi", a.mpi, "MPI to use: openmpi, mpich or abi.")
      ->type_name("ABI")
      ->check(one_of(mpi_abis))
      ->default_str("the first this build has");
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
  define_abi(app, a);
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
  define_abi(app, a);
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

void define_sweep(CLI::App& app, BenchArguments& a) {
  // Checked by hand afterwards: the two letters have one meaning each.
  app.add_option("PLACEMENT", a.placement, "Memory of rank 0 and of rank 1: D device, H host, M managed.")
      ->check(suggested(placements))
      ->default_str("D D");
  define_via(app, a);
}

void define_json(CLI::App& app, BenchArguments& a) {
  app.add_option("--json", a.json, "Write the results to FILE as JSON; -: to stdout, in place of the table.")
      ->type_name("FILE");
}

const char* usage_of(const BenchArguments& a) {
  if (is_barrier(a)) return "[options]";
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
                         a.kind->name, is_barrier(a) ? "" : " -m 4:1m -c D D");
    case Benchmark::latency:
      return "  fairlead bench latency -m 8:64k -c\n  fairlead run -n 2 --sim 2 fairlead bench latency H D";
    case Benchmark::bandwidth:
      return "  fairlead bench bw -m 64k:64m D D --json bw.json\n  fairlead bench bw --via nccl";
    case Benchmark::bidirectional:
      return "  fairlead bench bibw -W 16 -c";
    case Benchmark::pairs:
      return "  fairlead bench pairs -n 4 1048576 d\n  srun -n 16 fairlead bench pairs 0 d > pairs.dat";
    case Benchmark::all_pairs:
      return "  fairlead bench all_pairs -n 8\n  srun -n 16 fairlead bench all_pairs -m 8:16m";
    case Benchmark::matrix:
      return "  fairlead matrix\n  fairlead matrix -o matrix.png --map gpus.map --json matrix.json\n"
             "  fairlead run -n 8 --map gpus.map ./my_mpi_program";
    case Benchmark::copy:
      return "  fairlead bench copy -m 8:256m";
    case Benchmark::host_overhead:
      return "  fairlead bench host_overhead --rounds 9";
    case Benchmark::tune:
      return "  fairlead bench tune -o my.tuning\n  fairlead bench tune -n 2,4 -m 8:1m allreduce bcast";
  }
  return "";
}

void check_placement(BenchArguments& a) {
  for (std::string& place : a.placement) {
    if (place.size() == 1) place[0] = static_cast<char>(std::toupper(place[0]));
    if (std::find(placements.begin(), placements.end(), place) == placements.end())
      throw usage(
          fmt::format("placement '{}' is not accepted; accepted: D (device), H (host), M (managed)", place));
  }
  if (a.placement.size() != 2)
    throw usage(fmt::format("{} placement letter{} given; accepted: two, of rank 0 and of {}, as in D H",
                            a.placement.size(), a.placement.size() == 1 ? "" : "s",
                            is_collective(a) ? "the others" : "rank 1"));
  if (a.via == "nccl" && a.placement != std::vector<std::string>{"D", "D"})
    throw usage("--via nccl takes device memory on all ranks; accepted: D D");
}

std::string names_in_nccl() {
  std::string names;
  for (const BenchmarkKind& kind : benchmark_kinds)
    if (kind.id == Benchmark::collective && collective_kind(*kind.collective).in_nccl)
      names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

void check_collective(BenchArguments& a) {
  if (a.via == "nccl" && (a.kind->id == Benchmark::overlap || !a.collective().in_nccl))
    throw usage(fmt::format("--via nccl: NCCL has no such call; accepted: {}", names_in_nccl()));
  if (is_barrier(a)) {
    a.placement = {"H", "H"};
    a.smallest = a.largest = 0;
    return;
  }
  if (std::string wrong = parse_bytes(a.memory_text, &a.memory_limit); !wrong.empty())
    throw usage(fmt::format("-M: '{}' is not accepted; {}", a.memory_text, wrong));
  if (a.root_text == "rotate") {
    a.root = -1;
  } else if (std::string wrong = whole_number(0, INT32_MAX)(a.root_text); !wrong.empty()) {
    throw usage(fmt::format("-k: '{}' is not accepted; accepted: a rank, or rotate", a.root_text));
  } else {
    a.root = std::stoi(a.root_text);
  }
  const ElementType& type = element_type(a.element);
  a.smallest = std::max(a.smallest, type.bytes);
  if (a.largest < a.smallest)
    throw usage(
        fmt::format("-m: '{}' is not accepted; one {} takes {} bytes", a.size_range, type.name, type.bytes));
  if (a.smallest % type.bytes)
    throw usage(
        fmt::format("-m: '{}' is not accepted; accepted: sizes that begin with a multiple of {} bytes, "
                    "the size of a {}",
                    a.size_range, type.bytes, type.name));
}

// Collectives that reduce take floats, the others bytes.
void check_tune(BenchArguments& a) {
  uint64_t element = element_type("float").bytes;
  if (a.largest < element || (a.smallest > element && a.smallest % element))
    throw usage(
        fmt::format("-m: '{}' is not accepted; accepted: sizes that begin with {} bytes or a multiple",
                    a.size_range, element));
  if (std::string wrong = parse_bytes(a.memory_text, &a.memory_limit); !wrong.empty())
    throw usage(fmt::format("-M: '{}' is not accepted; {}", a.memory_text, wrong));
  if (a.collectives.empty()) a.collectives = tunable();
}

void check_together(BenchArguments& a) {
  if (a.sim > 0) {
    if (!a.device.empty() && a.device != "sim")
      throw usage(
          fmt::format("--sim simulates GPUs, and -d {} takes real ones; accepted: one of the two", a.device));
    a.device = "sim";
  }
  if (is_sweep(a) || is_collective(a)) check_placement(a);
  if (a.kind->id == Benchmark::pairs) {
    if (a.allocator.size() != 1)
      throw usage(
          fmt::format("ALLOCATOR '{}' is not accepted; accepted: one letter, d (device memory), h (pinned "
                      "host memory), a (posix_memalign), any other, as m (malloc)",
                      a.allocator));
    if (std::string_view("DHA").find(a.allocator[0]) != std::string_view::npos)
      a.allocator[0] = static_cast<char>(std::tolower(a.allocator[0]));
    if (a.count <= 0) a.count = int64_t{128} * 1024 * 1024;
    a.misalign = std::max<int64_t>(a.misalign, 0);
    for (auto [name, longs] : {std::pair("COUNT", a.count), std::pair("MISALIGN", a.misalign)})
      if (longs > INT32_MAX)
        throw usage(fmt::format("{} {} is not accepted; accepted: up to {} longs, what an MPI count holds",
                                name, longs, INT32_MAX));
  }
  if (!a.size_range.empty()) read_range(a.size_range, &a.smallest, &a.largest);
  if (a.kind->id == Benchmark::matrix && a.ways.empty()) a.ways = matrix_ways;
  if (a.smallest == 0 && a.kind->id != Benchmark::latency && !is_collective(a))
    throw usage(fmt::format("-m: '{}' is not accepted; accepted: sizes from 1 byte", a.size_range));
  if (is_collective(a)) check_collective(a);
  if (a.kind->id == Benchmark::tune) check_tune(a);
}

const BenchmarkKind& kind_of(const std::string& name) {
  for (const BenchmarkKind& kind : benchmark_kinds)
    if (name == kind.name) return kind;
  throw usage(fmt::format("no benchmark '{}'; accepted: {}", name, benchmark_names()));
}

// Why this provider has no GPU here; empty where it has one.
std::string lacking(device::Runtime* (*make)(const char**)) {
  const char* why_not = "";
  device::Runtime* runtime = make(&why_not);
  if (!runtime) return why_not;
  int devices = 0;
  if (device::Error error = runtime->device_count(&devices); error != device::Error::none)
    return fmt::format("{} {}", to_string(error), runtime->error_text());
  return devices == 0 ? "the driver shows no device" : "";
}

}  // namespace

std::string benchmark_names() {
  std::string names;
  for (const BenchmarkKind& kind : benchmark_kinds)
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

std::string command_of(const BenchmarkKind& kind) {
  return kind.id == Benchmark::matrix ? "fairlead matrix" : fmt::format("fairlead bench {}", kind.name);
}

std::string description_of(const BenchmarkKind& kind) {
  if (!kind.collective) return kind.summary;
  const CollectiveKind& collective = collective_kind(*kind.collective);
  const char* times = " Time is that of one call from its start to its completion, the mean over the ranks.";
  if (kind.id == Benchmark::overlap)
    times =
        " Pure communication is the call and its MPI_Wait. Then each rank computes for as long between the "
        "two; "
        "overall is the time of both together, overlap the part of the pure communication that the "
        "computation "
        "hides. Times are means over the ranks.";
  return kind.summary + std::string(times) + explain(collective, kind.id == Benchmark::collective);
}

void require_gpu(const BenchArguments& arguments) {
  const std::string& wanted = options().device;
  const bool nccl = arguments.via == "nccl";
  std::string why;
  if (wanted == "cuda") {
    why = lacking(device::make_cuda);
  } else if (wanted == "rocm") {
    why = lacking(device::make_hip);
  } else if (nccl && wanted != "auto") {
    why = fmt::format("the provider is {}", wanted);
  } else if (nccl) {
    std::string cuda = lacking(device::make_cuda), rocm = cuda.empty() ? "" : lacking(device::make_hip);
    if (!cuda.empty() && !rocm.empty()) why = fmt::format("no CUDA ({}), no ROCm ({})", cuda, rocm);
  }
  if (why.empty()) return;
  throw cannot_run(fmt::format("{}{}: {}", arguments.name_in_refusals(),
                               nccl ? "--via nccl: NCCL needs CUDA or ROCm GPUs"
                                    : fmt::format("no {} GPU here (-d sim simulates one)", wanted),
                               why));
}

void check_ranks(const BenchArguments& arguments, int ranks) {
  const BenchmarkKind& kind = *arguments.kind;
  if (kind.id == Benchmark::pairs && ranks % 2)
    throw usage(fmt::format("{}: {} rank{} cannot be paired; accepted: an even number of ranks", kind.name,
                            ranks, ranks == 1 ? "" : "s"));
  if (ranks < 2 && !kind.collective)
    throw usage(fmt::format("{}: 1 rank has no partner; accepted: 2 ranks or more", kind.name));
  if (arguments.root >= ranks)
    throw usage(fmt::format("{}: -k: there is no rank {} in {} rank{}", kind.name, arguments.root, ranks,
                            ranks == 1 ? "" : "s"));
}

std::string BenchArguments::name_in_refusals() const {
  return kind->id == Benchmark::matrix ? "" : std::string(kind->name) + ": ";
}

bool BenchArguments::needs_device() const {
  if (kind->id == Benchmark::pairs) return allocator == "d" || allocator == "h";
  if (kind->id == Benchmark::copy || kind->id == Benchmark::matrix) return true;
  return placement[0] != "H" || placement[1] != "H";
}

std::vector<uint64_t> BenchArguments::sizes() const {
  std::vector<uint64_t> all;
  for (uint64_t bytes = smallest; bytes <= largest && bytes >= smallest; bytes = bytes ? bytes * 2 : 1) {
    all.push_back(bytes);
    if (bytes > largest / 2) break;
  }
  return all;
}

void define_bench(CLI::App& app, BenchArguments& arguments) {
  Benchmark id = arguments.kind->id;
  arguments.ranks = arguments.kind->ranks;
  if (id == Benchmark::pairs)
    define_pairs(app, arguments);
  else if (id == Benchmark::tune)
    define_tune(app, arguments);
  else if (id != Benchmark::host_overhead)
    define_sizes(app, arguments);
  if (id == Benchmark::matrix) define_matrix(app, arguments);
  if (is_sweep(arguments)) define_sweep(app, arguments);
  if (is_collective(arguments)) define_collective(app, arguments);
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
  if (id == Benchmark::latency)
    app.add_flag("--fresh", arguments.fresh,
                 "Both ranks allocate their buffers anew for every round trip, which is timed without that.");
  define_device(app, arguments);
  if (id != Benchmark::pairs) define_json(app, arguments);
  if (arguments.kind->uses_mpi) define_launch(app, arguments);
  if (id == Benchmark::host_overhead) define_abi(app, arguments);
  set_up(app, usage_of(arguments), examples_of(arguments));
}

std::optional<BenchArguments> parse_bench(const std::string& benchmark, const Words& words) {
  BenchArguments arguments;
  arguments.kind = &kind_of(benchmark);
  arguments.command = command_of(*arguments.kind);
  if (!words.empty()) arguments.command += " " + shell_line(words);
  CLI::App app(description_of(*arguments.kind), command_of(*arguments.kind));
  define_bench(app, arguments);
  try {
    if (!parse(app, words)) return std::nullopt;
    check_together(arguments);
  } catch (const Failure& failure) {
    throw Failure(failure.code(), arguments.name_in_refusals() + failure.what());
  }
  return arguments;
}

}  // namespace fairlead::tools
