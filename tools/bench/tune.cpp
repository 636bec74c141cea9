// SPDX-License-Identifier: Apache-2.0
//
// `fairlead bench tune`: runs the benchmark of each collective once for each of its algorithms, which
// FAIRLEAD_COLL forces, and writes a file of rules (src/coll/tuning.h) by which the fastest are taken.
//
// Measurements are noisy where two algorithms take about the same time. A rule for every size would follow
// the noise, so changing the algorithm from one size to the next has a price, and the cheapest sequence of
// algorithms over the sizes is taken.

#include <fairlead/device.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/bench.h"
#include "bench/machine.h"
#include "bench/report.h"
#include "coll/collective_slot.h"
#include "coll/nccl_library.h"
#include "coll/tuning.h"
#include "common/files.h"
#include "common/places.h"
#include "common/process.h"
#include "common/provenance.h"

namespace fairlead::tools {
namespace {

using coll::AlgorithmRow;
using Json = nlohmann::ordered_json;

// Of a size's shortest time.
constexpr double price_of_a_change = 0.1;

// One collective in one number of ranks.
struct Table {
  const BenchmarkKind* kind = nullptr;
  int ranks = 0;
  std::vector<AlgorithmRow> algorithms = {};
  std::map<uint64_t, std::vector<Json>> latency_us = {};  // by size, of each algorithm
  std::vector<size_t> taken = {};                         // an algorithm for each size
};

std::vector<int> rank_counts(const BenchArguments& arguments) {
  std::set<int> counts(arguments.rank_counts.begin(), arguments.rank_counts.end());
  if (counts.empty()) counts.insert(std::clamp(fairlead_device_count(), 2, coll::max_members));
  return {counts.begin(), counts.end()};
}

// NCCL is measured where it can run: with a GPU for each rank.
bool can_run(const AlgorithmRow& row, int ranks) {
  std::string why_not;
  return row.members <= ranks &&
         (!coll::is_nccl(row.id) || (ranks <= fairlead_device_count() && coll::open_nccl(&why_not)));
}

std::vector<Table> tables_for(const BenchArguments& arguments) {
  std::vector<Table> tables;
  for (const coll::FamilyRow& family : coll::families) {
    if (std::find(arguments.collectives.begin(), arguments.collectives.end(), family.name) ==
        arguments.collectives.end())
      continue;
    auto kind = std::find_if(std::begin(benchmark_kinds), std::end(benchmark_kinds),
                             [&](const BenchmarkKind& each) { return each.name == family.name; });
    for (int ranks : rank_counts(arguments)) {
      Table& table = tables.emplace_back(Table{.kind = kind, .ranks = ranks});
      for (const AlgorithmRow& row : coll::algorithms)
        if (row.family == family.id && can_run(row, ranks)) table.algorithms.push_back(row);
    }
  }
  return tables;
}

Json run_of(const BenchArguments& arguments, const Table& table, const AlgorithmRow& algorithm) {
  Words command = {own_path(),
                   "bench",
                   table.kind->name,
                   "-n",
                   std::to_string(table.ranks),
                   "-m",
                   arguments.size_range,
                   "-M",
                   arguments.memory_text,
                   "--json",
                   "-"};
  if (arguments.iterations >= 0) command.insert(command.end(), {"-i", std::to_string(arguments.iterations)});
  if (arguments.warmup >= 0) command.insert(command.end(), {"-x", std::to_string(arguments.warmup)});
  if (!arguments.mpi.empty()) command.insert(command.end(), {"--mpi", arguments.mpi});
  if (!arguments.device.empty()) command.insert(command.end(), {"-d", arguments.device});
  std::string word = fmt::format("{}:{}", table.kind->name, algorithm.name);
  Captured captured = capture(command, Stderr::pass, {{"FAIRLEAD_COLL", word}, {"FAIRLEAD_TUNING", "off"}});
  Json result = Json::parse(captured.output, nullptr, false);
  if (captured.status != 0 || result.is_discarded()) {
    bool known = captured.status == exit_usage || captured.status == exit_cannot_run;
    throw Failure(known ? static_cast<ExitCode>(captured.status) : exit_problem,
                  fmt::format("tune: this run failed with exit code {}: FAIRLEAD_COLL={} {}", captured.status,
                              word, shell_line(command)));
  }
  if (!result["preloaded"].get<bool>())
    throw cannot_run("tune: the interposition library is not loaded, so there is nothing to tune");
  return result;
}

// For each size an algorithm.
std::vector<size_t> cheapest_sequence(const std::vector<std::vector<double>>& times) {
  struct Sequence {
    double cost = 0;
    std::vector<size_t> taken;
  };
  std::vector<Sequence> sequences;  // the cheapest one that ends with each algorithm
  for (const std::vector<double>& of_size : times) {
    double shortest = *std::min_element(of_size.begin(), of_size.end());
    sequences.resize(of_size.size());
    std::vector<Sequence> longer;
    for (size_t algorithm = 0; algorithm < of_size.size(); ++algorithm) {
      auto cost = [&](const Sequence& sequence) {
        bool changes = !sequence.taken.empty() && sequence.taken.back() != algorithm;
        return sequence.cost + (changes ? price_of_a_change : 0);
      };
      Sequence sequence =
          *std::min_element(sequences.begin(), sequences.end(),
                            [&](const Sequence& a, const Sequence& b) { return cost(a) < cost(b); });
      sequence.cost = cost(sequence) + (shortest > 0 ? of_size[algorithm] / shortest - 1 : 0);
      sequence.taken.push_back(algorithm);
      longer.push_back(std::move(sequence));
    }
    sequences = std::move(longer);
  }
  if (sequences.empty()) return {};
  return std::min_element(sequences.begin(), sequences.end(),
                          [](const Sequence& a, const Sequence& b) { return a.cost < b.cost; })
      ->taken;
}

void choose(Table& table) {
  std::vector<std::vector<double>> times;
  for (const auto& [size, latencies] : table.latency_us) {
    times.emplace_back();
    for (const Json& latency : latencies) times.back().push_back(latency["p50"].get<double>());
  }
  table.taken = cheapest_sequence(times);
}

// Each holds to the last size of its algorithm, that size included, since it stands before the next.
void add_rules(const Table& table, coll::Range ranks, coll::Rules* rules) {
  const uint64_t buffer =
      static_cast<uint64_t>(blocks_of(collective_kind(*table.kind->collective), table.ranks));
  coll::Range bytes;
  size_t i = 0;
  for (auto size = table.latency_us.begin(); size != table.latency_us.end(); ++size, ++i) {
    bool last = i + 1 == table.taken.size();
    if (!last && table.taken[i + 1] == table.taken[i]) continue;
    bytes.high = last ? UINT64_MAX : size->first * buffer;
    rules->push_back({table.algorithms[table.taken[i]].id, ranks, bytes});
    bytes.low = bytes.high;
  }
}

coll::Rules rules_of(const std::vector<Table>& tables, const std::vector<int>& counts) {
  coll::Rules rules;
  for (const Table& table : tables) {
    auto count = std::find(counts.begin(), counts.end(), table.ranks);
    coll::Range ranks;
    if (count != counts.begin()) ranks.low = static_cast<uint64_t>(*count);
    if (count + 1 != counts.end()) ranks.high = static_cast<uint64_t>(*(count + 1) - 1);
    add_rules(table, ranks, &rules);
  }
  return rules;
}

void print(const Table& table) {
  std::cout << fmt::format("#\n# {}, {} ranks, median times in us\n{:<{}}", table.kind->name, table.ranks,
                           "# Size", size_width);
  for (const AlgorithmRow& row : table.algorithms) std::cout << fmt::format("{:>{}}", row.name, value_width);
  std::cout << fmt::format("{:>{}}\n", "taken", value_width);
  size_t i = 0;
  for (const auto& [size, latencies] : table.latency_us) {
    std::cout << fmt::format("{:<{}}", size, size_width);
    for (const Json& latency : latencies)
      std::cout << fmt::format("{:>{}.2f}", latency["p50"].get<double>(), value_width);
    std::cout << fmt::format("{:>{}}\n", table.algorithms[table.taken[i++]].name, value_width);
  }
  std::cout << std::flush;
}

std::string machine_of(const Json& run) {
  std::string gpus, previous;
  const Json& all = run["hardware"]["gpus"];
  for (const Json& gpu : all)
    if (std::string name = gpu.get<std::string>(); name != previous) {
      gpus += (gpus.empty() ? "" : ", ") + name;
      previous = name;
    }
  return fmt::format("{}; GPUs: {} ({}), driver {}; {}", run["hardware"]["cpu"].get<std::string>(),
                     all.size(), gpus, run.value("driver", 0), run["mpi"]["library"].get<std::string>());
}

void write_rules(const BenchArguments& arguments, const coll::Rules& rules, const Json& run) {
  std::string text = fmt::format(
      "# Which algorithm a collective on device memory takes; FAIRLEAD_TUNING=FILE reads it.\n# {}, fairlead "
      "{}: "
      "{}\n# {}\n# collective, algorithm, ranks, bytes of the largest buffer of a rank; the first that fits "
      "counts\n",
      run["date"].get<std::string>(), FAIRLEAD_VERSION, arguments.command, machine_of(run));
  for (const coll::Rule& rule : rules) text += coll::to_text(rule) + '\n';
  write_to_file("-o", arguments.output, text);
}

void write_results(const BenchArguments& arguments, const std::vector<Table>& tables,
                   const coll::Rules& rules, const Json& run) {
  Json json;
  for (const char* key : {"schema", "date", "fairlead", "mpi", "provider", "hardware"}) json[key] = run[key];
  json["benchmark"] = arguments.kind->name;
  json["command"] = arguments.command;
  json[provenance_key] = provenance_of_runs(run, arguments);
  json["results"] = Json::array();
  for (const Table& table : tables) {
    size_t i = 0;
    for (const auto& [size, latencies] : table.latency_us) {
      Json row = {{"collective", table.kind->name}, {"ranks", table.ranks}, {"bytes", size}};
      for (size_t algorithm = 0; algorithm < latencies.size(); ++algorithm)
        row["latency_us"][std::string(table.algorithms[algorithm].name)] = latencies[algorithm];
      row["taken"] = table.algorithms[table.taken[i++]].name;
      json["results"].push_back(row);
    }
  }
  json["rules"] = Json::array();
  for (const coll::Rule& rule : rules) json["rules"].push_back(coll::to_text(rule));
  write_json(arguments.json, json);
}

}  // namespace

int tune_benchmark(const BenchArguments& arguments) {
  check_file_target("tune: -o", arguments.output);
  const bool shows_table = arguments.json != "-";
  std::vector<Table> tables = tables_for(arguments);
  size_t runs = 0, done = 0;
  for (const Table& table : tables) runs += table.algorithms.size();

  Json last;
  NoiseWatch noise(arguments);
  for (Table& table : tables) {
    for (const AlgorithmRow& algorithm : table.algorithms) {
      if (isatty(2))
        std::fprintf(stderr, "fairlead bench: run %zu of %zu: %s:%s in %d ranks\n", ++done, runs,
                     table.kind->name, std::string(algorithm.name).c_str(), table.ranks);
      last = run_of(arguments, table, algorithm);
      for (const Json& result : last["results"]) {
        table.latency_us[result["bytes"].get<uint64_t>()].push_back(result["latency_us"]);
        noise.take(result.value("doubtful", false),
                   fmt::format("{}:{} of {} bytes", table.kind->name, algorithm.name,
                               result["bytes"].get<uint64_t>()));
      }
    }
    choose(table);
    if (!shows_table) continue;
    if (&table == &tables.front())
      std::cout << fmt::format("# fairlead bench tune {}\n# command: {}\n# machine: {}\n{}", FAIRLEAD_VERSION,
                               arguments.command, machine_of(last),
                               last["provider"] == "sim" ? fmt::format("# {}\n", words_of_simulation) : "");
    print(table);
  }
  coll::Rules rules = rules_of(tables, rank_counts(arguments));
  const std::string why_not = arguments.anyway ? "" : noise.why_no_advice();
  if (why_not.empty()) write_rules(arguments, rules, last);
  if (!arguments.json.empty()) write_results(arguments, tables, rules, last);
  if (shows_table && why_not.empty())
    std::cout << fmt::format("#\n# {} rules are in {}; to use them: export FAIRLEAD_TUNING={}\n",
                             rules.size(), arguments.output,
                             shell_quote(std::filesystem::absolute(arguments.output)));
  noise.warn();
  if (!why_not.empty())
    throw cannot_run(
        fmt::format("tune: {} is not written: {}; --anyway writes it", arguments.output, why_not));
  return exit_success;
}

}  // namespace fairlead::tools
