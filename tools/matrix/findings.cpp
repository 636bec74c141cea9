// SPDX-License-Identifier: Apache-2.0
//
// What `fairlead matrix` says: tables of 80 columns, JSON, and a file for `fairlead run --map`.

#include <fairlead/device.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <set>

#include "common/files.h"
#include "common/provenance.h"
#include "common/words.h"
#include "doctor/link_table.h"
#include "matrix/matrix.h"

namespace fairlead::tools::matrix {
namespace {

constexpr size_t columns_of_a_table = 8, column_width = 9, label_width = 8;

// A table of those who send (rows) and those who receive (columns), in as many parts as are needed.
void print_grid(const std::string& title, size_t side, auto cell) {
  std::cout << fmt::format("#\n# {}\n", title);
  for (size_t first = 0; first < side; first += columns_of_a_table) {
    size_t end = std::min(side, first + columns_of_a_table);
    std::cout << fmt::format("{:<{}}", "# GPU", label_width);
    for (size_t to = first; to < end; ++to) std::cout << fmt::format("{:>{}}", to, column_width);
    std::cout << "\n";
    for (size_t from = 0; from < side; ++from) {
      std::cout << fmt::format("{:<{}}", from, label_width);
      for (size_t to = first; to < end; ++to)
        std::cout << fmt::format("{:>{}}", from == to ? "." : cell(from, to), column_width);
      std::cout << "\n";
    }
  }
}

struct Quantity {
  const char* title;
  const char* unit;
  std::optional<Distribution> PairValues::*value;
  double scale;
  uint64_t BenchArguments::*bytes;
};
constexpr Quantity quantities[] = {
    {"one way", "GB/s", &PairValues::one_way_mb_s, 1e-3, &BenchArguments::largest},
    {"both ways at once", "GB/s", &PairValues::both_ways_mb_s, 1e-3, &BenchArguments::largest},
    {"latency", "us", &PairValues::latency_us, 1, &BenchArguments::smallest},
};

// "driver's copy (SDMA)"
std::string title_with(const Way& way, const std::string& carrier) {
  return carrier.empty() ? way.title : fmt::format("{} ({})", way.title, carrier);
}

// Of all its quantities.
std::string title_of(const Way& way) {
  const bool both = way.latency_by != way.bandwidth_by;
  return title_with(way, both ? way.bandwidth_by + "; small ones " + way.latency_by : way.bandwidth_by);
}

bool valid(const Way& way) {
  for (size_t i = 0; i < way.pairs.side(); ++i)
    for (size_t j = 0; j < way.pairs.side(); ++j)
      if (!way.pairs.at(i, j).valid) return false;
  return true;
}

void print_way(const BenchArguments& arguments, const Way& way) {
  if (!way.why_not.empty()) {
    std::cout << fmt::format("#\n# {}: not measured: {}\n", way.name, way.why_not);
    return;
  }
  for (const Quantity& quantity : quantities)
    print_grid(fmt::format("{}: {}, {}, {}",
                           title_with(way, quantity.bytes == &BenchArguments::smallest ? way.latency_by
                                                                                       : way.bandwidth_by),
                           quantity.title, quantity.unit, size_in_words(arguments.*quantity.bytes)),
               way.pairs.side(), [&](size_t from, size_t to) {
                 const auto& found = way.pairs.at(from, to).*quantity.value;
                 return found ? fmt::format("{:.{}f}", found->p50 * quantity.scale,
                                            found->p50 * quantity.scale < 100 ? 2 : 1)
                              : std::string("-");
               });
  if (arguments.validate)
    std::cout << fmt::format("# validation: {}\n", valid(way) ? "all bytes are right" : "bytes are WRONG");
}

void print_links(const Findings& findings) {
  std::set<std::string> kinds;
  size_t side = findings.gpus.size();
  for (size_t i = 0; i < side; ++i)
    for (size_t j = 0; j < side; ++j)
      if (i != j && !findings.links.at(i, j).empty()) kinds.insert(findings.links.at(i, j));
  if (kinds.empty()) return;
  print_grid("links", side, [&](size_t from, size_t to) { return findings.links.at(from, to); });
  for (const std::string& kind : kinds)
    if (std::string words = doctor::link_in_words(kind); words != kind)
      std::cout << fmt::format("# {}: {}\n", kind, words);
}

std::string value_of(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);
  return value ? value : otherwise;
}

void print_sentence(const std::string& words) {
  const std::string margin = "# ";
  std::cout << margin << wrapped(words, margin.size(), margin) << "\n";
}

}  // namespace

void print(const BenchArguments& arguments, const Findings& findings, bool writes_map) {
  std::cout << fmt::format("# fairlead matrix {}\n# command: {}\n# provider: {}\n", FAIRLEAD_VERSION,
                           arguments.command, fairlead_device_provider());
  for (size_t i = 0; i < findings.gpus.size(); ++i)
    std::cout << fmt::format("# GPU {}: {}, {}, NUMA node {}\n", i, findings.names[i], findings.gpus[i].pci,
                             findings.numa[i]);
  if (fairlead_device_provider() == std::string("rocm"))
    for (const char* name : sdma_settings)
      std::cout << fmt::format("# {}: {}\n", name, value_of(name, "not set"));
  std::cout << "# rows send, columns receive\n";
  print_links(findings);
  for (const Way& way : findings.ways) print_way(arguments, way);
  std::cout << "#\n";
  print_sentence(findings.advice.words);
  if (writes_map)
    std::cout << fmt::format("# To use it: fairlead run --map {}\n", shell_quote(arguments.map));
}

Json to_json(const BenchArguments& arguments, const Context& context, const Findings& findings) {
  Json json = context_json(arguments, context);
  json["window"] = arguments.window;
  json["gpus"] = Json::array();
  for (size_t i = 0; i < findings.gpus.size(); ++i)
    json["gpus"].push_back(
        {{"name", findings.names[i]}, {"pci", findings.gpus[i].pci}, {"numa", findings.numa[i]}});
  if (fairlead_device_provider() == std::string("rocm"))
    for (const char* name : sdma_settings) json["settings"][name] = value_of(name, "");
  json["results"] = Json::array();
  json["ways"] = Json::array();
  for (const Way& way : findings.ways) {
    Json row = {{"way", way.name}, {"title", title_of(way)}};
    if (!way.bandwidth_by.empty()) row["latency_by"] = way.latency_by, row["bandwidth_by"] = way.bandwidth_by;
    if (!way.why_not.empty()) row["why_not"] = way.why_not;
    json["ways"].push_back(row);
    for (size_t from = 0; from < way.pairs.side(); ++from)
      for (size_t to = 0; to < way.pairs.side(); ++to) {
        const PairValues& values = way.pairs.at(from, to);
        if (!values.latency_us) continue;
        Json pair = {{"way", way.name},
                     {"from", from},
                     {"to", to},
                     {"link", findings.links.at(from, to)},
                     {"latency_bytes", arguments.smallest},
                     {"latency_us", tools::to_json(*values.latency_us)},
                     {"bytes", arguments.largest},
                     {"bandwidth_mb_s", tools::to_json(*values.one_way_mb_s)},
                     {"both_ways_mb_s", tools::to_json(*values.both_ways_mb_s)}};
        if (arguments.validate) pair["valid"] = values.valid;
        json["results"].push_back(pair);
      }
  }
  json["order"] = findings.advice.order;
  json["advice"] = findings.advice.words;
  return json;
}

void write_map(const BenchArguments& arguments, const Findings& findings) {
  write_to_file(
      "--map", arguments.map,
      fmt::format(
          "# The GPU of each local rank; `fairlead run --map FILE` reads it.\n# {}, {}, fairlead {}: {}\n# "
          "{}\n{}\n",
          host_name(), utc_date(), FAIRLEAD_VERSION, arguments.command, findings.advice.words,
          fmt::join(findings.advice.order, ",")));
}

}  // namespace fairlead::tools::matrix
