// SPDX-License-Identifier: Apache-2.0

#include "bench/options/arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/options.h"
#include "common/command_line.h"
#include "common/files.h"
#include "device/pci_gpu.h"
#include "device/runtime.h"

namespace fairlead::tools {
namespace {

void check_placement(BenchArguments& a) {
  for (std::string& place : a.placement) {
    if (place.size() == 1) place[0] = static_cast<char>(std::toupper(place[0]));
    if (std::find(placements.begin(), placements.end(), place) == placements.end())
      throw usage(
          fmt::format("placement '{}' is not accepted; accepted: D (device), H (host), M (managed)", place));
  }
  if (a.placement.size() != 2)
    throw usage(fmt::format("{} placement letter{} given; accepted: two, of {}, as in D H",
                            a.placement.size(), a.placement.size() == 1 ? "" : "s", owners_of(*a.kind)));
  if (a.via == "nccl" && a.placement != std::vector<std::string>{"D", "D"})
    throw usage("--via nccl takes device memory on all ranks; accepted: D D");
}

std::string names_in_nccl() {
  std::string names;
  for (const BenchmarkKind& kind : benchmark_kinds)
    if (kind.id == Benchmark::collective && !kind.persistent && collective_kind(*kind.collective).in_nccl)
      names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

// Of a benchmark without --via; "" where NCCL has nothing like it.
std::string why_not_by_nccl(const BenchmarkKind& kind) {
  if (kind.collective) return fmt::format("--via nccl: NCCL has no such call; accepted: {}", names_in_nccl());
  return kind.persistent ? "--via nccl has no persistent requests; accepted: mpi, which needs no --via" : "";
}

// Sizes are of whole elements.
void check_elements(BenchArguments& a) {
  const std::string of_osu = "mpi_";
  if (a.element.rfind(of_osu, 0) == 0) a.element.erase(0, of_osu.size());
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

void check_collective(BenchArguments& a) {
  if (a.kind->barrier()) {
    a.placement = {"H", "H"};
    a.smallest = a.largest = 0;
    return;
  }
  if (a.via != "nccl" && (a.symmetric || a.graph))
    throw usage(fmt::format("{} is for NCCL; add --via nccl or leave it out",
                            a.symmetric ? "--symmetric" : "--cudagraph"));
  if (std::string wrong = parse_bytes(a.memory_text, &a.memory_limit); !wrong.empty())
    throw usage(fmt::format("-M: '{}' is not accepted; {}", a.memory_text, wrong));
  if (a.root_text == "rotate") {
    a.root = -1;
  } else if (std::string wrong = whole_number(0, INT32_MAX)(a.root_text); !wrong.empty()) {
    throw usage(fmt::format("-k: '{}' is not accepted; accepted: a rank, or rotate", a.root_text));
  } else {
    a.root = std::stoi(a.root_text);
  }
  if (a.graph && a.root < 0)
    throw usage(
        "--cudagraph would make the graphs of further roots while it measures; accepted: -k with a rank");
  check_elements(a);
}

void check_one_sided(BenchArguments& a) {
  if (a.kind->combines()) {
    check_elements(a);
    if (a.largest / element_type(a.element).bytes > INT32_MAX)
      throw usage(
          fmt::format("-m: '{}' is not accepted; accepted: up to {} elements, what an MPI count holds",
                      a.size_range, INT32_MAX));
  }
  if (a.raw && a.placement != std::vector<std::string>{"D", "D"})
    throw usage("--raw compares with work on device memory alone; accepted: D D");
}

void check_messages(BenchArguments& a) {
  if (std::string wrong = parse_bytes(a.offset_text, &a.offset); !wrong.empty())
    throw usage(fmt::format("--offset: '{}' is not accepted; {}", a.offset_text, wrong));
  if (a.probe != Probe::none && a.via != "mpi")
    throw usage("--probe and --mprobe are calls of MPI; leave them or --via out");
  if (a.kind->id != Benchmark::partitioned) return;
  const auto partitions = static_cast<uint64_t>(a.partitions);
  a.smallest = (a.smallest + partitions - 1) / partitions * partitions;
  if (a.largest < a.smallest)
    throw usage(
        fmt::format("-m: '{}' is not accepted; of {} partitions (-p) accepted: sizes up to {} or more",
                    a.size_range, partitions, a.smallest));
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

void check_pack(BenchArguments& a) {
  if (std::string wrong = a.packed_text.empty() ? "" : parse_bytes(a.packed_text, &a.packed_bytes);
      !wrong.empty())
    throw usage(fmt::format("--bytes: '{}' is not accepted; {}", a.packed_text, wrong));
  if (a.packed_bytes < a.largest || a.packed_bytes > INT32_MAX)
    throw usage(fmt::format(
        "--bytes: '{}' is not accepted; accepted: from the largest block, {}, to {}, what MPI_Pack "
        "can count",
        a.packed_text.empty() ? "64m" : a.packed_text, a.largest, INT32_MAX));
}

void check_file(const BenchArguments& a) {
  if (a.largest > INT32_MAX)
    throw usage(fmt::format("-m: '{}' is not accepted; accepted: up to {} bytes, what an MPI count holds",
                            a.size_range, INT32_MAX));
  if (access(a.file.c_str(), F_OK) == 0)
    throw usage(
        fmt::format("--file: '{}' exists; accepted: a new file, which is deleted at the end", a.file));
  check_file_target("--file", a.file);
}

void check_pairs(BenchArguments& a) {
  if (a.allocator.size() != 1)
    throw usage(
        fmt::format("ALLOCATOR '{}' is not accepted; accepted: one letter, d (device memory), h (pinned "
                    "host memory), a (posix_memalign), any other, as m (malloc)",
                    a.allocator));
  if (std::string_view("DHA").find(a.allocator[0]) != std::string_view::npos)
    a.allocator[0] = static_cast<char>(std::tolower(a.allocator[0]));
  if (!a.packed_text.empty()) {
    uint64_t bytes = 0;
    const std::string wrong = parse_bytes(a.packed_text, &bytes);
    if (!wrong.empty() || bytes == 0 || bytes % sizeof(long))
      throw usage(fmt::format("--bytes: '{}' is not accepted; accepted: a multiple of {} bytes, such as 64m",
                              a.packed_text, sizeof(long)));
    if (a.count > 0) throw usage("--bytes and COUNT both say how much is sent; accepted: one of the two");
    a.count = static_cast<int64_t>(bytes / sizeof(long));
  }
  if (a.count <= 0) a.count = int64_t{128} * 1024 * 1024;
  a.misalign = std::max<int64_t>(a.misalign, 0);
  for (auto [name, longs] : {std::pair("COUNT", a.count), std::pair("MISALIGN", a.misalign)})
    if (longs > INT32_MAX)
      throw usage(fmt::format("{} {} is not accepted; accepted: up to {} longs, what an MPI count holds",
                              name, longs, INT32_MAX));
}

void check_together(BenchArguments& a) {
  if (a.sim > 0) {
    if (!a.device.empty() && a.device != "sim")
      throw usage(
          fmt::format("--sim simulates GPUs, and -d {} takes real ones; accepted: one of the two", a.device));
    a.device = "sim";
  }
  check_placement(a);
  if (a.kind->id == Benchmark::init) a.placement = {"H", "H"};
  if (a.kind->id == Benchmark::pairs) check_pairs(a);
  if (!a.size_range.empty()) read_range(a.size_range, &a.smallest, &a.largest);
  if (a.kind->id == Benchmark::matrix && a.ways.empty()) a.ways = matrix_ways;
  if (a.smallest == 0 && a.kind->id != Benchmark::latency && a.kind->id != Benchmark::multi_latency &&
      !a.kind->collective)
    throw usage(fmt::format("-m: '{}' is not accepted; accepted: sizes from 1 byte", a.size_range));
  if (a.kind->id == Benchmark::posted && a.largest > most_posted)
    throw usage(fmt::format("-N: '{}' is not accepted; accepted: up to {}", a.size_range, most_posted));
  if (a.kind->id == Benchmark::enqueue_allreduce) a.element = "float", check_elements(a);
  if (a.kind->on_streams() && a.largest > INT32_MAX)
    throw usage(fmt::format("-m: '{}' is not accepted; accepted: up to {} bytes, what an MPI count holds",
                            a.size_range, INT32_MAX));
  if (a.kind->id == Benchmark::file) check_file(a);
  if (a.kind->messages()) check_messages(a);
  if (a.kind->id == Benchmark::pack) check_pack(a);
  if (a.kind->id == Benchmark::datatype && a.types.empty()) a.types = layout_names;
  if (a.kind->collective) check_collective(a);
  if (a.kind->one_sided()) check_one_sided(a);
  if (a.kind->id == Benchmark::tune) check_tune(a);
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

// In an allocation there may be GPUs that this process was not given.
std::string how_to_get_gpus() {
  struct Row {
    const char *set, *command;
  };
  for (const Row& row : {Row{"SLURM_JOB_ID", "srun --gpus-per-node=N"}, {"FLUX_URI", "flux run -g N"}})
    if (std::getenv(row.set)) return fmt::format("; {} gives processes real ones", row.command);
  return {};
}

}  // namespace

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

void require_gpu(const BenchArguments& arguments) {
  require_gpu(arguments, arguments.needs_device());
}

void require_gpu(const BenchArguments& arguments, bool needs_device) {
  const std::string& wanted = options().device;
  const bool nccl = arguments.via == "nccl";
  std::string why;
  if (wanted == "cuda") {
    why = lacking(device::make_cuda);
  } else if (wanted == "rocm") {
    why = lacking(device::make_hip);
  } else if (nccl && wanted != "auto") {
    why = fmt::format("the provider is {}", wanted);
  } else if (wanted == "auto" && (nccl || needs_device)) {
    std::string cuda = lacking(device::make_cuda), rocm = cuda.empty() ? "" : lacking(device::make_hip);
    if (!cuda.empty() && !rocm.empty()) why = fmt::format("no CUDA ({}), no ROCm ({})", cuda, rocm);
  }
  if (why.empty()) return;
  throw cannot_run(fmt::format(
      "{}{}: {}", arguments.name_in_refusals(),
      nccl ? "--via nccl: NCCL needs CUDA or ROCm GPUs"
           : fmt::format(
                 "{} ({} or FAIRLEAD_DEVICE=sim simulates GPUs, whose timings are not valid{})",
                 wanted == "auto" ? device::words_for_unusable_gpus() : fmt::format("no {} GPU here", wanted),
                 arguments.kind->id == Benchmark::matrix ? "--sim 4" : "--sim N", how_to_get_gpus()),
      why));
}

void check_ranks(const BenchArguments& arguments, int ranks) {
  const BenchmarkKind& kind = *arguments.kind;
  if (kind.in_pairs() && ranks % 2)
    throw usage(fmt::format("{}: needs an even number of ranks, got {}", kind.name, ranks));
  if (arguments.raw && ranks != 2)
    throw usage(fmt::format("{}: --raw compares the copies of one pair; needs exactly 2 ranks, got {}",
                            kind.name, ranks));
  if (const int exact = kind.exact_ranks(); exact && ranks != exact)
    throw usage(
        fmt::format("{}: needs exactly {} rank{}, got {}", kind.name, exact, exact == 1 ? "" : "s", ranks));
  if (ranks < 2 && !kind.collective && !kind.exact_ranks() && kind.id != Benchmark::init &&
      kind.id != Benchmark::file)
    throw usage(fmt::format("{}: needs at least 2 ranks, got 1", kind.name));
  if (arguments.root >= ranks)
    throw usage(fmt::format("{}: -k: there is no rank {} in {} rank{}", kind.name, arguments.root, ranks,
                            ranks == 1 ? "" : "s"));
}

void define_bench(CLI::App& app, BenchArguments& arguments) {
  const BenchmarkKind& kind = *arguments.kind;
  arguments.ranks = kind.ranks;
  (*kind.options)(app, arguments);
  std::string usage = "[options]";
  for (const CLI::Option* option : std::as_const(app).get_options())
    if (!option->nonpositional()) usage += fmt::format(" [{}]", option->get_type_name());
  set_up(app, usage, fmt::format(fmt::runtime(kind.examples), kind.name));
}

std::string BenchArguments::name_in_refusals() const {
  return kind->id == Benchmark::matrix ? "" : std::string(kind->name) + ": ";
}

bool BenchArguments::needs_device() const {
  if (kind->id == Benchmark::pairs) return allocator == "d" || allocator == "h";
  if (kind->id == Benchmark::copy || kind->id == Benchmark::matrix) return true;
  if (kind->id == Benchmark::host_overhead) return false;
  if (computes_on_gpu() || context) return true;
  return placement[0] != "H" || placement[1] != "H";
}

bool BenchArguments::needs_device_in(int rank, int ranks) const {
  const bool root_and_others = kind->collective || kind->id == Benchmark::file;
  const bool halves = kind->messages() || kind->exact_ranks() == 2;
  if ((!root_and_others && !halves) || computes_on_gpu()) return needs_device();
  const int first = root_and_others ? 1 : std::max(1, ranks / 2);  // as many ranks have the first letter
  return placement[rank < first ? 0 : 1] != "H";
}

std::vector<uint64_t> BenchArguments::sizes() const {
  std::vector<uint64_t> all;
  for (uint64_t bytes = smallest; bytes <= largest && bytes >= smallest; bytes = bytes ? bytes * 2 : 1) {
    all.push_back(bytes);
    if (bytes > largest / 2) break;
  }
  return all;
}

std::optional<BenchArguments> parse_bench(const std::string& benchmark, const Words& words) {
  BenchArguments arguments;
  arguments.kind = &kind_of(benchmark);
  arguments.asked = benchmark;
  arguments.command = command_of(*arguments.kind);
  if (!words.empty()) arguments.command += " " + shell_line(words);
  CLI::App app(description_of(*arguments.kind), command_of(*arguments.kind));
  define_bench(app, arguments);
  try {
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string name = words[i].substr(0, words[i].find('='));
      const bool is_here = app.get_option_no_throw(name);
      std::string answer = is_here ? answer_to_value(name, i + 1 < words.size() ? words[i + 1] : "",
                                                     app.get_option_no_throw("--via"))
                                   : answer_to_option(words[i]);
      if (!is_here && name == "--via") answer = why_not_by_nccl(*arguments.kind);
      if (!answer.empty()) throw usage(answer);
    }
    if (!parse(app, words)) return std::nullopt;
    check_together(arguments);
  } catch (const Failure& failure) {
    throw Failure(failure.code(), arguments.name_in_refusals() + failure.what());
  }
  return arguments;
}

}  // namespace fairlead::tools
