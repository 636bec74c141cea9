// SPDX-License-Identifier: Apache-2.0
//
// fairlead-bench(1): all benchmarks, and the options of all of them, each once with the benchmarks that take
// it.

#include "common/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/bench.h"
#include "common/command_line.h"

namespace fairlead::tools {
namespace {

struct SharedOption {
  OptionText text;  // as of the first benchmark that has it
  std::vector<const BenchmarkKind*> taken_by;
};

std::vector<SharedOption> options_of_all() {
  std::vector<SharedOption> all;
  for (const BenchmarkKind& kind : benchmark_kinds) {
    if (kind.id == Benchmark::matrix) continue;  // a command of its own, with a page of its own
    BenchArguments arguments;
    arguments.kind = &kind;
    CLI::App app;
    define_bench(app, arguments);
    for (const OptionText& option : options_of(app)) {
      auto row = std::find_if(all.begin(), all.end(), [&](const SharedOption& known) {
        return known.text.spelling == option.spelling;
      });
      if (row == all.end()) row = all.insert(all.end(), {option, {}});
      row->taken_by.push_back(&kind);
    }
  }
  return all;
}

size_t members_of(const std::string& group) {
  return static_cast<size_t>(
      std::count_if(std::begin(benchmark_kinds), std::end(benchmark_kinds),
                    [&](const BenchmarkKind& kind) { return group == group_of(kind); }));
}

// "Taken by the collectives, latency and bw": a group by its name where more than half of it takes an option.
std::string takers(const std::vector<const BenchmarkKind*>& kinds) {
  if (kinds.size() + 1 == std::size(benchmark_kinds)) return "";
  Words names;
  for (size_t i = 0; i < kinds.size();) {
    const std::string group = group_of(*kinds[i]);
    size_t end = i;
    while (end < kinds.size() && group == group_of(*kinds[end])) ++end;
    const size_t members = members_of(group);
    if (group != "Others" && end - i > 2 && (end - i) * 2 > members)
      names.push_back(fmt::format("{}{}", end - i < members ? "most " : "", lower(group)));
    else if (kinds[i]->collective && end - i > 2)
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
    if (!kind.collective)
      page.item(kind.name, without_verb(kind.summary));
    else if (begins)
      page.paragraph(kind.id == Benchmark::collective && !kind.persistent
                         ? names_in(group) + "."  // what it measures its name says
                         : fmt::format("The same ones: {} and so on.", kind.name));
  }
  page.section("OPTIONS");
  page.space_items();
  page.paragraph("The benchmarks that take an option stand in brackets, unless all do.");
  for (const SharedOption& option : options_of_all())
    page.item(option.text.spelling, option.text.explanation + takers(option.taken_by));
  page.section("EXAMPLES");
  page.lines(
      "  fairlead bench latency D H\n  fairlead bench allreduce -n 4 -m 8:64m -c\n"
      "  srun --mpi=pmix -n 16 fairlead bench mbw_mr --json mbw_mr.json");
  add_surroundings(&page, "fairlead bench");
  return page.text();
}

}  // namespace fairlead::tools
