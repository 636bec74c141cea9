// SPDX-License-Identifier: Apache-2.0

#include "compare/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <string_view>

#include "base/system/printable.h"
#include "common/failure.h"
#include "common/provenance.h"

namespace fairlead::tools {
namespace {

using Json = nlohmann::ordered_json;

// null if there is none. Nothing is copied: that recurses, and a file may be nested without end.
const Json& member(const Json& of, const char* name) {
  static const Json none;
  const auto found = of.find(name);
  return found == of.end() ? none : *found;
}

// The unit at the end of a figure's name; of these, more is better of all but times.
constexpr std::string_view times[] = {"_us", "_ns", "_ms", "_s", "seconds"};
constexpr std::string_view rates[] = {"b_s", "_percent"};

template <size_t count>
bool ends_with_any(std::string_view name, const std::string_view (&ends)[count]) {
  return std::any_of(std::begin(ends), std::end(ends),
                     [&](std::string_view end) { return name.ends_with(end); });
}

bool is_figure(std::string_view name) {
  // What follows from others, and the spread and the settings of others.
  constexpr std::string_view others[] = {"algbw_gb_s", "busbw_gb_s", "rank_mean_us", "timeout_s"};
  return (ends_with_any(name, times) || ends_with_any(name, rates)) &&
         std::find(std::begin(others), std::end(others), name) == std::end(others);
}

Samples samples_of(const Json& values) {
  Samples samples;
  for (const Json& value : values)
    if (value.is_number()) samples.push_back({value.get<double>()});
  return samples;
}

// The value of a figure: a number, a list of equal measurements, or a distribution of them.
std::optional<Figure> figure_of(const std::string& row, const std::string& name, const Json& json) {
  if (json.is_number()) return Figure{row, name, json.get<double>()};
  if (json.is_array()) {
    Figure figure{row, name, 0, samples_of(json)};
    if (figure.samples.empty() || figure.samples.size() != json.size()) return {};
    auto middle = figure.samples.begin() + static_cast<std::ptrdiff_t>(figure.samples.size() / 2);
    std::nth_element(figure.samples.begin(), middle, figure.samples.end(),
                     [](const Sample& one, const Sample& other) { return one.value < other.value; });
    figure.value = middle->value;
    return figure;
  }
  for (const char* middle : {"p50", "mean"})
    if (json.is_object() && json.contains(middle) && json[middle].is_number())
      return Figure{row, name, json[middle].get<double>(), samples_of(member(json, "batches"))};
  return {};
}

void add_figures(const std::string& row, const Json& json, std::vector<Figure>* figures) {
  for (const auto& [name, value] : json.items()) {
    if (!is_figure(name)) continue;
    if (std::optional<Figure> figure = figure_of(row, printable(name), value))
      figures->push_back(std::move(*figure));
    else if (value.is_object())  // of tune: by algorithm
      for (const auto& [kind, inner] : value.items())
        if (std::optional<Figure> of_kind = figure_of(row + " " + printable(kind), printable(name), inner);
            of_kind && inner.is_object())
          figures->push_back(std::move(*of_kind));
  }
}

// In one line, whatever the file has; nothing that is nested, however deep.
std::string word(const Json& json) {
  const auto nested = [](const Json& inner) { return inner.is_structured() && !inner.empty(); };
  if (json.is_object() || std::any_of(json.begin(), json.end(), nested))
    return json.is_object() ? "{...}" : "[...]";
  return printable(json.is_string() ? json.get<std::string>()
                                    : json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

// What a row of results is of: the members that are no measurement.
std::string name_of_row(const Json& row) {
  std::string name;
  for (const char* key : {"way", "collective", "ranks", "from", "to", "layout", "type", "face", "name",
                          "block", "messages", "bytes", "packed_bytes", "latency_bytes"})
    if (row.contains(key) && row[key].is_primitive())
      name += fmt::format("{}{} {}", name.empty() ? "" : ", ", key, word(row[key]));
  return name;
}

// Of the calls of functions, or the messages of a path: the mean, which has more digits than the histogram.
void add_tallies(const Json& rows, std::vector<Figure>* figures) {
  for (const Json& row : rows) {
    const double count = row.value("count", 0.0);
    if (count == 0) continue;
    Figure figure{word(member(row, "function")), "mean_us", 1e6 * row.value("seconds", 0.0) / count};
    if (row.contains("path")) figure.row += ", " + word(row["path"]);
    for (const Json& bucket : member(row, "histogram_us"))
      figure.samples.push_back({bucket.at(0).get<double>(), bucket.at(1).get<uint64_t>()});
    figures->push_back(std::move(figure));
  }
}

void add_statistics(const Json& json, std::vector<Figure>* figures) {
  figures->push_back({"the job", "seconds", json.at("seconds").get<double>()});
  for (const char* tallies : {"calls", "messages"}) add_tallies(member(json, tallies), figures);
  for (const Json& phase : member(json, "phases")) {
    Figure figure{"phase", "seconds", phase.value("mean", 0.0)};
    for (const Json& name : phase.at("path")) figure.row += " " + word(name);
    figures->push_back(std::move(figure));
  }
}

void read_figures(RunFile* run) {
  const Json& json = run->json;
  if (json.contains(provenance_key)) {
    const Json& provenance = json[provenance_key];
    run->origin = word(provenance.at("date")) + " on " + word(provenance.at("host"));
  }
  run->complete = json.value("complete", true);
  run->valid = json.value("valid", true);
  if (json.contains("traffic") && json.contains("calls")) {
    run->what = "statistics";
    return add_statistics(json, &run->figures);
  }
  if (!json.contains("benchmark")) return;
  run->what = word(json["benchmark"]);
  add_figures(run->what, json, &run->figures);
  std::map<std::string, int> seen;
  for (const Json& row : member(json, "results")) {
    std::string name = name_of_row(row);
    if (name.empty()) name = run->what;
    if (const int before = seen[name]++; before > 0) name += fmt::format(" ({})", before + 1);
    add_figures(name, row, &run->figures);
  }
}

// The origin, and the settings of a benchmark: what stands beside its results and is one value.
std::map<std::string, std::string> settings_of(const Json& json) {
  std::map<std::string, std::string> settings;
  const Json& provenance = member(json, provenance_key);
  for (const auto& [name, value] : provenance.items())
    if (value.is_object())
      for (const auto& [inner, of_inner] : value.items())
        settings[printable(name + "." + inner)] = word(of_inner);
    else
      settings[printable(name)] = word(value);
  // When they were made, and the names of their files, always differ.
  for (const char* name : {"date", "options.FAIRLEAD_STATS", "options.FAIRLEAD_TRACE"}) settings.erase(name);
  if (const auto command = settings.find("command"); command != settings.end())
    command->second =
        std::regex_replace(command->second, std::regex(" --(json|stats-file|trace)[ =]\\S+"), "");
  // Those that the provenance says too, and the findings of matrix.
  constexpr std::string_view others[] = {"schema", "command", "date",     "fairlead", "driver",
                                         "advice", "ranks",   "provider", "complete", "valid"};
  if (json.contains("benchmark"))
    for (const auto& [name, value] : json.items())
      if ((value.is_primitive() || name == "placement") && !is_figure(name) &&
          std::find(std::begin(others), std::end(others), name) == std::end(others))
        settings[printable(name)] = word(value);
  return settings;
}

}  // namespace

bool Figure::more_is_better() const {
  return ends_with_any(name, rates);
}

RunFile read_run(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  // Of a folder, the first read fails.
  if (!stream || (stream.peek(), stream.bad()))
    throw usage(fmt::format("{}: cannot be read: {}", file, std::strerror(errno)));
  RunFile run{file, "", Json::parse(stream, nullptr, false)};
  if (run.json.is_discarded()) throw usage(fmt::format("{}: is no JSON", file));
  try {
    if (run.json.is_object()) read_figures(&run);
  } catch (const Json::exception& error) {
    throw usage(fmt::format("{}: is damaged: {}", file, error.what()));
  }
  if (run.figures.empty())
    throw usage(
        fmt::format("{}: has no figures; accepted: what `fairlead bench NAME --json FILE`, `fairlead matrix "
                    "--json FILE` or `fairlead run --stats-file FILE` wrote",
                    file));
  return run;
}

std::vector<std::string> what_differs(const RunFile& one, const RunFile& other) {
  std::vector<std::string> differences;
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [name, value] : settings_of(one.json)) both[name].first = value;
  for (const auto& [name, value] : settings_of(other.json)) both[name].second = value;
  for (const auto& [name, values] : both)
    if (values.first != values.second)
      differences.push_back(fmt::format("{}: {}, then {}", name,
                                        values.first.empty() ? "unset" : values.first,
                                        values.second.empty() ? "unset" : values.second));
  return differences;
}

}  // namespace fairlead::tools
