// SPDX-License-Identifier: Apache-2.0
//
// fairlead-bench(1): all benchmarks, and the options of all of them, each once for all benchmarks in which it
// means the same.

#include "common/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "bench/bench.h"
#include "common/command_line.h"

namespace fairlead::tools {
namespace {

struct SharedOption {
  std::string spelling;
  Words sentences;  // that all of them have: a default may differ, or a note
  std::vector<const BenchmarkKind*> taken_by;
};

Words sentences_of(const std::string& text) {
  Words all;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(". ", start), text.size() - 1) + 1;
    all.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return all;
}

std::vector<SharedOption> options_of_all() {
  std::vector<SharedOption> all;
  for (const BenchmarkKind& kind : benchmark_kinds) {
    if (kind.id == Benchmark::matrix) continue;  // a command of its own, with a page of its own
    BenchArguments arguments;
    arguments.kind = &kind;
    CLI::App app;
    define_bench(app, arguments);
    for (const OptionText& option : options_of(app)) {
      const Words sentences = sentences_of(option.explanation);
      auto row = std::find_if(all.begin(), all.end(), [&](const SharedOption& known) {
        return known.spelling == option.spelling && known.sentences.front() == sentences.front();
      });
      if (row == all.end()) row = all.insert(all.end(), {option.spelling, sentences, {}});
      std::erase_if(row->sentences, [&](const std::string& sentence) {
        return std::find(sentences.begin(), sentences.end(), sentence) == sentences.end();
      });
      row->taken_by.push_back(&kind);
    }
  }
  return all;
}

size_t count_of(bool (*is_one)(const BenchmarkKind&)) {
  return static_cast<size_t>(std::count_if(std::begin(benchmark_kinds), std::end(benchmark_kinds), is_one));
}

// " [collectives, latency, bw]": a group by its name where more than half of it takes an option. Collectives
// are one group where some of each of their groups take it.
std::string takers(const std::vector<const BenchmarkKind*>& kinds) {
  if (kinds.size() + 1 == std::size(benchmark_kinds)) return "";
  if (kinds.size() == count_of([](const BenchmarkKind& kind) { return kind.uses_mpi; }) &&
      std::all_of(kinds.begin(), kinds.end(), [](const BenchmarkKind* kind) { return kind->uses_mpi; }))
    return " [all but Others]";
  std::set<std::string> of_collectives;
  for (const BenchmarkKind* kind : kinds)
    if (kind->names_collective()) of_collectives.insert(group_of(*kind));
  auto group_in_words = [&](const BenchmarkKind& kind) -> std::string {
    if (!kind.names_collective()) return group_of(kind);
    if (of_collectives.size() == 3) return "Collectives";
    return kind.id == Benchmark::overlap || kind.persistent ? group_of(kind) : "Blocking collectives";
  };
  auto members_of = [&](const std::string& group) {
    return static_cast<size_t>(
        std::count_if(std::begin(benchmark_kinds), std::end(benchmark_kinds),
                      [&](const BenchmarkKind& kind) { return group == group_in_words(kind); }));
  };
  Words names;
  for (size_t i = 0; i < kinds.size();) {
    const std::string group = group_in_words(*kinds[i]);
    size_t end = i;
    while (end < kinds.size() && group == group_in_words(*kinds[end])) ++end;
    const size_t members = members_of(group);
    if (group != "Others" && end - i > 2 && (end - i) * 2 > members)
      names.push_back(fmt::format("{}{}", end - i < members ? "most " : "", lower(group)));
    else if (kinds[i]->names_collective() && end - i > 2)
      names.push_back("some " + lower(group));
    else
      for (size_t k = i; k < end; ++k) names.push_back(kinds[k]->name);
    i = end;
  }
  return fmt::format(" [{}]", fmt::join(names, ", "));
}

// What all summaries begin with.
std::string without_verb(const std::string& summary) {
  const std::string verb = "Measure ";
  return summary.substr(summary.rfind(verb, 0) == 0 ? verb.size() : 0);
}

}  // namespace

std::string bench_manual() {
  ManualPage page("fairlead-bench", 1, "measure messages, windows and collectives of host and device memory");
  page.section("SYNOPSIS");
  page.paragraph("fairlead bench NAME [options] [D|H|M D|H|M]");
  page.section("DESCRIPTION");
  page.paragraph(
      "Measures what MPI does with host, device and managed memory, with the options and the tables of the "
      "OSU "
      "micro-benchmarks, whose names are accepted too: fairlead bench osu_latency. Starts the ranks itself; "
      "in "
      "the ranks of a launcher it becomes one of them. Two letters say where the buffers are: D device, H "
      "host, M managed. fairlead bench NAME --help has the options of one benchmark, with its defaults.");
  page.section("BENCHMARKS");
  page.close_items();
  std::string group;
  for (const BenchmarkKind& kind : benchmark_kinds) {
    const bool begins = group != group_of(kind);
    group = group_of(kind);
    if (begins) page.subsection(group);
    if (kind.id == Benchmark::matrix)
      page.item(kind.name, "see fairlead-matrix(1).");
    else if (!kind.names_collective())
      page.item(kind.name, without_verb(kind.summary));
    else if (begins)
      page.paragraph(kind.id == Benchmark::collective && !kind.persistent
                         ? names_in(group) + "."  // what it measures its name says
                         : fmt::format("The same ones: {} and so on.", kind.name));
  }
  page.section("OPTIONS");
  page.paragraph(
      "Brackets hold the benchmarks that take an option in the sense before them; there are none where all "
      "do. A default is here if it is the same for all of these.");
  std::vector<std::pair<std::string, std::string>> items;  // what one spelling means follows each other
  for (const SharedOption& option : options_of_all()) {
    auto item = std::find_if(items.begin(), items.end(),
                             [&](const auto& known) { return known.first == option.spelling; });
    if (item == items.end()) item = items.insert(items.end(), {option.spelling, ""});
    item->second += fmt::format("{}{}\n", fmt::join(option.sentences, " "), takers(option.taken_by));
  }
  for (const auto& [spelling, text] : items) page.item(spelling, text);
  page.space_items();
  page.section("EXAMPLES");
  page.lines(
      "  fairlead bench latency D H\n  fairlead bench allreduce -n 4 -m 8:64m -c\n"
      "  srun --mpi=pmix -n 16 fairlead bench mbw_mr --json mbw_mr.json");
  add_surroundings(&page, "fairlead bench");
  return page.text();
}

}  // namespace fairlead::tools
