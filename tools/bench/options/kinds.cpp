// SPDX-License-Identifier: Apache-2.0

#include "bench/options/kinds.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include "coll/algorithms.h"
#include "common/failure.h"
#include "common/words.h"

namespace fairlead::tools {

bool BenchmarkKind::messages() const {
  switch (id) {
    case Benchmark::latency:
    case Benchmark::latency_threads:
    case Benchmark::bandwidth:
    case Benchmark::bidirectional:
    case Benchmark::multi_latency:
    case Benchmark::multi_bandwidth:
    case Benchmark::partitioned:
    case Benchmark::first:
      return true;
    default:
      return false;
  }
}

bool BenchmarkKind::one_message() const {
  return id == Benchmark::latency || id == Benchmark::latency_threads || id == Benchmark::multi_latency ||
         id == Benchmark::partitioned || id == Benchmark::first || id == Benchmark::access_latency ||
         id == Benchmark::put_halo;
}

int BenchmarkKind::exact_ranks() const {
  if (id == Benchmark::pack) return 1;
  const bool layouts = id == Benchmark::halo || id == Benchmark::datatype;
  const bool two = layouts || exchanges() || id == Benchmark::posted || id == Benchmark::enqueue ||
                   (messages() && !all_ranks());
  return two ? 2 : 0;
}

namespace {

struct OsuName {
  const char* name;     // without osu_
  const char* here;     // "" where there is none
  const char* why_not;  // and what to do
};
constexpr OsuName osu_names[] = {
#define FAIRLEAD_OSU(name, here) {#name, #here, ""},
#define FAIRLEAD_OSU_LACKS(name, why_not) {#name, "", why_not},
#include "bench/options/osu.def"
};

constexpr std::pair<const char*, const char*> nccl_tests[] = {
#define FAIRLEAD_NCCL_TESTS(name, here) {#name, #here},
#include "bench/options/nccl_tests.def"
};

constexpr const char *osu_suite = "the OSU suite", *nccl_suite = "nccl-tests";

struct OtherOption {
  const char *suite, *letter, *name, *answer;
};
constexpr OtherOption other_options[] = {
#define FAIRLEAD_OSU_OPTION(letter, name, answer) {osu_suite, letter, name, answer},
#include "bench/options/osu.def"
#define FAIRLEAD_NCCL_TESTS_OPTION(letter, name, answer) {nccl_suite, letter, name, answer},
#include "bench/options/nccl_tests.def"
};

struct OtherValue {
  const char *suite, *letter, *pattern, *answer;
};
constexpr OtherValue other_values[] = {
#define FAIRLEAD_OSU_VALUE(letter, pattern, answer) {osu_suite, letter, pattern, answer},
#include "bench/options/osu.def"
#define FAIRLEAD_NCCL_TESTS_VALUE(letter, pattern, answer) {nccl_suite, letter, pattern, answer},
#include "bench/options/nccl_tests.def"
};

// Null for other names.
const OsuName* osu_name(const std::string& name) {
  constexpr std::string_view osu = "osu_";
  if (name.rfind(osu, 0) != 0) return nullptr;
  for (const OsuName& row : osu_names)
    if (name.substr(osu.size()) == row.name) return &row;
  return nullptr;
}

}  // namespace

const BenchmarkKind* find_kind(const std::string& name) {
  const OsuName* osu = osu_name(name);
  for (const BenchmarkKind& kind : benchmark_kinds)
    if (kind.name == (osu ? osu->here : name)) return &kind;
  return nullptr;
}

const BenchmarkKind& kind_of(const std::string& name) {
  if (const BenchmarkKind* kind = find_kind(name)) return *kind;
  if (const OsuName* osu = osu_name(name))
    throw usage(fmt::format("{} is not available: {}", name, osu->why_not));
  for (const auto& [program, here] : nccl_tests)
    if (name == program)
      throw usage(fmt::format(
          "{} of nccl-tests: use `fairlead bench {} --via nccl`, or leave --via out to measure MPI", name,
          here));
  std::string guess = did_you_mean(name, split(benchmark_names(), ", "));
  throw usage(fmt::format("no benchmark '{}'{} `fairlead bench --help` lists all", name,
                          guess.empty() ? ";" : guess));
}

std::string answer_to_option(const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  std::string answers;
  for (const OtherOption& option : other_options)
    if (name == option.letter || name == option.name)
      answers += fmt::format("{} of {}: {}", answers.empty() ? name : ";", option.suite, option.answer);
  return answers;
}

std::string answer_to_value(const std::string& option, const std::string& value, bool measures_nccl) {
  for (const OtherValue& row : other_values)
    if (option == row.letter && fnmatch(row.pattern, value.c_str(), 0) == 0 &&
        (row.suite == osu_suite || measures_nccl))
      return fmt::format("{} {} of {}: {}", option, value, row.suite, row.answer);
  return {};
}

const char* group_of(const BenchmarkKind& kind) {
  return !kind.uses_mpi                       ? "Others"
         : kind.datatypes()                   ? "Datatypes"
         : kind.one_sided()                   ? "Windows"
         : kind.id == Benchmark::file         ? "Files"
         : kind.exchanges()                   ? "Messages"
         : kind.id == Benchmark::overlap      ? "Nonblocking collectives"
         : kind.collective && kind.persistent ? "Persistent collectives"
         : kind.id == Benchmark::collective   ? "Collectives"
                                              : "Messages";
}

std::string names_in(const std::string& group) {
  std::string names;
  for (const BenchmarkKind& kind : benchmark_kinds)
    if (group == group_of(kind)) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

std::string benchmark_names() {
  std::string names;
  for (const BenchmarkKind& kind : benchmark_kinds)
    names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

std::vector<std::string> tunable() {
  std::vector<std::string> names;
  for (const coll::FamilyRow& family : coll::families)
    for (const BenchmarkKind& kind : benchmark_kinds)
      if (family.name == kind.name) names.push_back(kind.name);
  return names;
}

std::array<std::string, 2> owner_names(const BenchmarkKind& kind) {
  if (kind.id == Benchmark::pack) return {"blocks with gaps", "packed bytes"};
  if (kind.one_sided()) return {"origin", "window"};
  if (kind.all_ranks()) return {"first half of the ranks", "second half"};
  if (kind.on_streams() && kind.id != Benchmark::enqueue) return {"rank 0", "other ranks"};
  return {"rank 0", kind.names_collective() || kind.id == Benchmark::file ? "other ranks" : "rank 1"};
}

std::string owners_of(const BenchmarkKind& kind) {
  return kind.id == Benchmark::pack ? "the blocks with gaps and of the packed bytes"
         : kind.names_collective() || kind.id == Benchmark::file ? "rank 0 and of all other ranks"
         : kind.one_sided() ? "the origins of accesses and of the windows"
         : kind.all_ranks() ? "the first half of the ranks and of the second"
                            : "rank 0 and of rank 1";
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
        " Pure communication is the start and its wait alone. Then each rank computes for as long between "
        "the two; overall is the time of both together, overlap the part of the pure communication that the "
        "computation hides. Times are means over the ranks.";
  if (kind.persistent) times = " Times are means over the ranks.";
  return kind.summary + std::string(times) + explain(collective, kind.id == Benchmark::collective);
}

}  // namespace fairlead::tools
