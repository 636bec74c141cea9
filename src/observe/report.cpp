// SPDX-License-Identifier: Apache-2.0

#include "observe/report.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <numeric>
#include <span>
#include <sstream>

#include "observe/json/json.h"
#include "observe/json/text.h"

namespace fairlead::observe {
namespace {

constexpr double p50 = 0.5, p90 = 0.9, p99 = 0.99;

// Formats three digits and a unit.
std::string scaled(double value, double step, std::initializer_list<const char*> units) {
  const char* const* unit = units.begin();
  while (value >= step && unit + 1 != units.end()) value /= step, ++unit;
  bool whole = unit == units.begin();
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", whole || value >= 100 ? 0 : value >= 10 ? 1 : 2, value, *unit);
  return text;
}

unsigned long long number(uint64_t value) {
  return value;
}

double time_of(const Tally& tally, double fraction) {
  return percentile(tally.histogram, fraction, tally.longest);
}

void append_row(std::string* text, const std::string& name, const Tally& tally) {
  append(text, "%-27s %8llu %8s %7s %7s %7s %7s\n", name.c_str(), number(tally.count),
         tally.bytes ? in_words_of_size(tally.bytes).c_str() : "-",
         in_words_of_time(static_cast<double>(tally.nanoseconds)).c_str(),
         in_words_of_time(time_of(tally, p50)).c_str(), in_words_of_time(time_of(tally, p99)).c_str(),
         in_words_of_time(static_cast<double>(tally.longest)).c_str());
}

void append_heading(std::string* text, const char* what) {
  append(text, "%-27s %8s %8s %7s %7s %7s %7s\n", what, "count", "bytes", "time", "p50", "p99", "max");
}

// Of the time of so many ranks.
std::string share_of(uint64_t nanoseconds, const Report& report, int ranks = 1) {
  const double whole = report.seconds * 1e9 * ranks;
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", whole > 0 ? 100 * static_cast<double>(nanoseconds) / whole : 0);
  return text;
}

uint64_t nanoseconds_in_calls(const Report& report) {
  uint64_t sum = 0;
  for (const auto& [key, tally] : report.tallies)
    if (key.path == calls) sum += tally.nanoseconds;
  return sum;
}

void append_share(std::string* text, const Report& report) {
  if (report.seconds <= 0) return;
  append(text, "%s of the time in MPI", share_of(nanoseconds_in_calls(report), report, report.ranks).c_str());
  if (report.ranks > 1)
    append(text, ": least %s on rank %d, most %s on rank %d", share_of(report.in_mpi.least, report).c_str(),
           report.in_mpi.least_rank, share_of(report.in_mpi.most, report).c_str(), report.in_mpi.most_rank);
  *text += "\n";
}

std::span<const CallsFromSite> sites_of(const Report& report, int function) {
  const auto& all = report.sites;
  const auto begin = std::partition_point(
      all.begin(), all.end(), [function](const CallsFromSite& site) { return site.function < function; });
  const auto end = std::partition_point(
      begin, all.end(), [function](const CallsFromSite& site) { return site.function == function; });
  return {all.data() + (begin - all.begin()), static_cast<size_t>(end - begin)};
}

// The first ones of a function.
void append_sites(std::string* text, const Report& report, int function) {
  constexpr size_t shown = 3;
  const auto sites = sites_of(report, function);
  for (const CallsFromSite& site : sites.first(std::min(shown, sites.size())))
    append(text, "  %8llu %7s %7s  at %s\n", number(site.tally.count),
           in_words_of_time(static_cast<double>(site.tally.nanoseconds)).c_str(),
           share_of(site.tally.nanoseconds, report, report.ranks).c_str(), site.place.c_str());
  if (const size_t rest = sites.size() - std::min(shown, sites.size()))
    append(text, "  and at %zu other place%s\n", rest, rest == 1 ? "" : "s");
}

// Sorts by total time, longest first.
void append_calls(std::string* text, const Report& report, NameOf name_of) {
  std::vector<std::pair<int, const Tally*>> rows;
  for (const auto& [key, tally] : report.tallies)
    if (key.path == calls) rows.push_back({key.function, &tally});
  if (rows.empty()) return;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.second->nanoseconds > b.second->nanoseconds;
  });
  append(text, "%-27s %8s %8s %7s %7s %7s %7s\n", "MPI calls", "count", "bytes", "time", "share", "p50",
         "max");
  for (const auto& [function, tally] : rows) {
    append(text, "%-27s %8llu %8s %7s %7s %7s %7s\n", name_of(function), number(tally->count),
           tally->bytes ? in_words_of_size(tally->bytes).c_str() : "-",
           in_words_of_time(static_cast<double>(tally->nanoseconds)).c_str(),
           share_of(tally->nanoseconds, report, report.ranks).c_str(),
           in_words_of_time(time_of(*tally, p50)).c_str(),
           in_words_of_time(static_cast<double>(tally->longest)).c_str());
    append_sites(text, report, function);
  }
}

// The largest difference between two ranks first.
void append_spreads(std::string* text, const Report& report, NameOf name_of) {
  if (report.ranks == 1 || report.spreads.empty()) return;
  std::vector<std::pair<int, SpreadOfCalls>> rows(report.spreads.begin(), report.spreads.end());
  auto difference = [](const auto& row) {
    return row.second.nanoseconds.most - row.second.nanoseconds.least;
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return difference(a) > difference(b); });
  append(text, "%-27s %7s %5s %7s %7s %5s %14s\n", "time in MPI calls, by rank", "least", "rank", "median",
         "most", "rank", "calls");
  auto words = [](uint64_t nanoseconds) { return in_words_of_time(static_cast<double>(nanoseconds)); };
  for (const auto& [function, spread] : rows) {
    const Spread &time = spread.nanoseconds, &count = spread.count;
    std::string range = std::to_string(count.least);
    if (count.least < count.most) range += " to " + std::to_string(count.most);
    append(text, "%-27s %7s %5d %7s %7s %5d %14s\n", name_of(function), words(time.least).c_str(),
           time.least_rank, words(time.median).c_str(), words(time.most).c_str(), time.most_rank,
           range.c_str());
  }
}

// Each message counts in exactly one row, that of its path; sends that were also buffered are listed below.
void append_traffic(std::string* text, const Report& report) {
  if (std::accumulate(report.messages.begin(), report.messages.end(), uint64_t{0}) == 0) {
    *text += "no device messages\n";
    return;
  }
  append(text, "%-27s %8s %8s\n", "device messages", "count", "bytes");
  for (size_t row = 0; row < report.messages.size(); ++row) {
    const auto path = static_cast<Traffic>(row);
    const bool before = path == Traffic::buffered_device || path == Traffic::buffered_host;
    if (report.messages[row] > 0)
      append(text, "%s%-*s %8llu %8s\n", before ? "  " : "", before ? 25 : 27, to_string(path),
             number(report.messages[row]), in_words_of_size(report.bytes[row]).c_str());
  }
}

void append_messages(std::string* text, const Report& report, NameOf name_of) {
  int previous = -1;
  for (const auto& [key, tally] : report.tallies) {
    if (key.path == calls) continue;
    if (previous < 0) append_heading(text, "device messages by MPI call");
    if (key.function != previous) append(text, "%s\n", name_of(key.function));
    previous = key.function;
    append_row(text, std::string("  ") + to_string(key.path), tally);
  }
}

void append_fallbacks(std::string* text, const Report& report) {
  bool first = true;
  for (size_t i = 0; i < report.fallbacks.size(); ++i) {
    if (report.fallbacks[i] == 0) continue;
    if (first) *text += "reasons for fallbacks\n";
    first = false;
    append(text, "%12llu  %s\n", number(report.fallbacks[i]), to_string(static_cast<Fallback>(i)));
  }
}

void add_tally(JsonObject* object, const Tally& tally) {
  object->add("count", tally.count).add("bytes", tally.bytes);
  object->add("seconds", static_cast<double>(tally.nanoseconds) * 1e-9, 9);
  for (auto [name, fraction] : {std::pair("p50_us", p50), {"p90_us", p90}, {"p99_us", p99}})
    object->add(name, time_of(tally, fraction) * 1e-3, 3);
  object->add("max_us", static_cast<double>(tally.longest) * 1e-3, 3);
  std::string histogram;
  for (int bucket = 0; bucket < histogram_buckets; ++bucket)
    if (const uint64_t count = tally.histogram[static_cast<size_t>(bucket)])
      append(&histogram, "%s[%.4g, %llu]", histogram.empty() ? "" : ", ", middle_of(bucket) * 1e-3,
             number(count));
  object->add_json("histogram_us", "[" + histogram + "]");
}

// `add_value` adds a value under a name.
template <class AddValue>
std::string spread_as_json(const Spread& spread, AddValue add_value) {
  JsonObject object;
  add_value(&object, "min", spread.least);
  object.add("min_rank", spread.least_rank);
  add_value(&object, "median", spread.median);
  add_value(&object, "max", spread.most);
  object.add("max_rank", spread.most_rank);
  return object.text();
}

void add_seconds(JsonObject* object, const char* name, uint64_t nanoseconds) {
  object->add(name, static_cast<double>(nanoseconds) * 1e-9, 9);
}

std::string as_json(const SpreadOfCalls& spread) {
  auto count = [](JsonObject* object, const char* name, uint64_t value) { object->add(name, value); };
  return JsonObject()
      .add_json("seconds", spread_as_json(spread.nanoseconds, add_seconds))
      .add_json("count", spread_as_json(spread.count, count))
      .text();
}

std::string sites_as_json(const Report& report, int function) {
  std::vector<std::string> rows;
  for (const CallsFromSite& site : sites_of(report, function))
    rows.push_back(JsonObject()
                       .add("site", site.place)
                       .add("count", site.tally.count)
                       .add("bytes", site.tally.bytes)
                       .add("seconds", static_cast<double>(site.tally.nanoseconds) * 1e-9, 9)
                       .add("max_us", static_cast<double>(site.tally.longest) * 1e-3, 3)
                       .text());
  return json_array(rows);
}

uint64_t calls_in(const Report& report) {
  uint64_t count = 0;
  for (const auto& [key, tally] : report.tallies)
    if (key.path == calls) count += tally.count;
  return count;
}

uint64_t bytes_in(const Report& report) {
  return std::accumulate(report.bytes.begin(), report.bytes.end(), uint64_t{0});
}

}  // namespace

std::string in_words_of_time(double nanoseconds) {
  return scaled(nanoseconds, 1000, {"ns", "us", "ms", "s"});
}

std::string in_words_of_size(uint64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB", "PiB"});
}

std::vector<CallsFromSite> listed(const Sites& sites, bool with_lines) {
  std::vector<CodePlace> places;
  for (const auto& [site, tally] : sites) places.push_back(site.place);
  std::vector<std::string> texts;
  if (with_lines)
    texts = texts_with_lines(places);
  else
    std::ranges::transform(places, std::back_inserter(texts), &CodePlace::text);
  std::vector<CallsFromSite> rows;
  for (const auto& [site, tally] : sites) rows.push_back({site.function, texts[rows.size()], tally});
  std::ranges::stable_sort(rows, [](const CallsFromSite& one, const CallsFromSite& other) {
    return one.function != other.function ? one.function < other.function
                                          : one.tally.nanoseconds > other.tally.nanoseconds;
  });
  return rows;
}

std::string encode(const Sites& sites) {
  std::ostringstream text;
  for (const auto& [site, tally] : sites)
    text << site.function << ' ' << tally.count << ' ' << tally.bytes << ' ' << tally.nanoseconds << ' '
         << tally.longest << ' ' << site.place.offset << ' ' << site.place.file << '\n';
  return text.str();
}

Sites add_up_sites(const std::vector<std::string>& encoded) {
  Sites sum;
  for (const std::string& of_rank : encoded) {
    std::istringstream lines(of_rank);
    Site site{};
    Tally its;
    while (lines >> site.function >> its.count >> its.bytes >> its.nanoseconds >> its.longest >>
               site.place.offset &&
           lines.get() && std::getline(lines, site.place.file)) {
      sum[site].add(its);
    }
  }
  return sum;
}

Report own_report() {
  Report report;
  for (int row = 0; row < static_cast<int>(Traffic::rows); ++row) {
    report.messages.push_back(traffic(static_cast<Traffic>(row)).messages);
    report.bytes.push_back(traffic(static_cast<Traffic>(row)).bytes);
  }
  for (int row = 0; row < static_cast<int>(Fallback::rows); ++row)
    report.fallbacks.push_back(fallbacks(static_cast<Fallback>(row)));
  report.tallies = tallies();
  report.in_mpi = spread_of({nanoseconds_in_calls(report)});
  report.sites = listed(sites(), false);
  report.phases = add_up({encode(own_phases())});
  return report;
}

std::string as_table(const Report& report, NameOf name_of) {
  std::string text;
  append(&text, "fairlead statistics over %s, %.3f s\n", report.whose.c_str(), report.seconds);
  append_share(&text, report);
  append_traffic(&text, report);
  append_fallbacks(&text, report);
  append_messages(&text, report, name_of);
  append_calls(&text, report, name_of);
  append_spreads(&text, report, name_of);
  text += as_table(report.phases, report.ranks);
  return text;
}

std::string as_line(const Report& report, const Report& before, const OldestCall& oldest, NameOf name_of) {
  std::string text;
  const auto seconds = static_cast<uint64_t>(report.seconds);
  append(&text, "fairlead %llu:%02llu:%02llu %s: %llu MPI calls (+%llu), %s of device messages (+%s)",
         number(seconds / 3600), number(seconds / 60 % 60), number(seconds % 60), report.whose.c_str(),
         number(calls_in(report)), number(calls_in(report) - calls_in(before)),
         in_words_of_size(bytes_in(report)).c_str(),
         in_words_of_size(bytes_in(report) - bytes_in(before)).c_str());
  // The most frequent phase usually counts the program's time steps.
  const auto& phases = report.phases.inner;
  auto most = std::max_element(phases.begin(), phases.end(),
                               [](const Phase& a, const Phase& b) { return a.count < b.count; });
  if (most != phases.end() && most->count == 0)
    append(&text, ", in its first %.200s", most->name.c_str());
  else if (most != phases.end())
    append(&text, ", %.200s %llu time%s", most->name.c_str(), number(most->count),
           most->count == 1 ? "" : "s");
  constexpr double long_ns = 1e9;
  double in_it = oldest.function < 0 ? 0 : static_cast<double>(now()) - static_cast<double>(oldest.since);
  if (in_it >= long_ns)
    append(&text, ", in %s for %s", name_of(oldest.function), in_words_of_time(in_it).c_str());
  return text + "\n";
}

std::string as_json(const Report& report, const Provenance& provenance, NameOf name_of) {
  std::vector<std::string> traffic, fallbacks, messages, function_calls;
  for (size_t row = 0; row < report.messages.size(); ++row)
    traffic.push_back(JsonObject()
                          .add("path", to_string(static_cast<Traffic>(row)))
                          .add("messages", report.messages[row])
                          .add("bytes", report.bytes[row])
                          .text());
  for (size_t row = 0; row < report.fallbacks.size(); ++row)
    if (report.fallbacks[row] > 0)
      fallbacks.push_back(JsonObject()
                              .add("reason", to_string(static_cast<Fallback>(row)))
                              .add("count", report.fallbacks[row])
                              .text());
  for (const auto& [key, tally] : report.tallies) {
    JsonObject object;
    object.add("function", name_of(key.function));
    if (key.path != calls) object.add("path", to_string(key.path));
    add_tally(&object, tally);
    auto spread = report.spreads.find(key.function);
    if (key.path == calls && spread != report.spreads.end())
      object.add_json("by_rank", as_json(spread->second));
    if (key.path == calls) object.add_json("sites", sites_as_json(report, key.function));
    (key.path == calls ? function_calls : messages).push_back(object.text());
  }
  JsonObject object;
  object.add("ranks", report.ranks);
  if (report.missing) object.add_json("missing_ranks", json_array(*report.missing));
  return object.add("seconds", report.seconds, 6)
             .add_json("seconds_in_mpi", spread_as_json(report.in_mpi, add_seconds))
             .add_json("traffic", json_array(traffic))
             .add_json("fallbacks", json_array(fallbacks))
             .add_json("messages", json_array(messages))
             .add_json("calls", json_array(function_calls))
             .add_json("phases", json_array(as_json(report.phases, report.ranks)))
             .add_json(provenance_key, as_json(provenance))
             .text() +
         "\n";
}

}  // namespace fairlead::observe
