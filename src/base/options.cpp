// SPDX-License-Identifier: Apache-2.0

#include "base/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "base/environment.h"
#include "base/launched_job.h"
#include "base/log.h"
#include "base/said.h"

namespace fairlead {
namespace {

struct Row {
  const char* kind;
  const char* name;
  const char* type;
  const char* initial;
  const char* accepted;
  const char* help;
};

// The accepted words of FAIRLEAD_COLL.
constexpr const char collective_words[] = "auto|staged"
#define FAIRLEAD_FAMILY(name, collectives)
#define FAIRLEAD_ALGORITHM(family, name, members, what) "|" #family ":" #name
#include "base/algorithms.def"
#undef FAIRLEAD_FAMILY
#undef FAIRLEAD_ALGORITHM
    ;

constexpr Row rows[] = {
#define FAIRLEAD_OPTION(kind, name, type, initial, accepted, help) \
  {#kind, #name, #type, initial, accepted, help},
#define FAIRLEAD_ALIAS(name, variable)
#include "base/options.def"
#undef FAIRLEAD_OPTION
#undef FAIRLEAD_ALIAS
};

struct Alias {
  const char* name;
  const char* variable;
};

constexpr Alias aliases[] = {
#define FAIRLEAD_OPTION(kind, name, type, initial, accepted, help)
#define FAIRLEAD_ALIAS(name, variable) {#name, variable},
#include "base/options.def"
#undef FAIRLEAD_OPTION
#undef FAIRLEAD_ALIAS
};

// Variables with Fairlead's prefix that belong to the tools and the build, not to this table.
constexpr const char* foreign[] = {"FAIRLEAD_HOME", "FAIRLEAD_BUILD", "FAIRLEAD_MPICC", said_variable};
constexpr const char* foreign_prefix = "FAIRLEAD_TEST_";
constexpr const char* prefix = "FAIRLEAD_";

constexpr const char* boolean_words = "on, off, yes, no, true, false, 1, 0";
constexpr const char* size_words = "a size in bytes such as 4096, 64k, 1m, 2g";

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string variable_of(const std::string& name) {
  std::string variable = prefix + name;
  std::transform(variable.begin(), variable.end(), variable.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return variable;
}

// May a list be empty? Others have a word for their usual state.
bool may_be_off(const Row& row) {
  return std::string(row.initial) == "off";
}

// Describes what a row accepts; warnings and documentation share the text.
std::string accepted_words(const Row& row) {
  std::string type = row.type, accepted = row.accepted;
  if (type == "boolean") return boolean_words;
  if (type == "integer" || type == "bytes")
    return std::string(type == "bytes" ? size_words : "a whole number") + ", " + accepted;
  if (accepted.empty()) return "any text";
  if (type == "numbers") {
    const size_t space = accepted.find(' ');
    accepted = accepted.substr(space + 1) + ", each NAME:NUMBER with " + accepted.substr(0, space);
  }
  for (size_t bar; (bar = accepted.find('|')) != std::string::npos;) accepted.replace(bar, 1, ", ");
  if (type != "list" && type != "numbers") return accepted;
  return (may_be_off(row) ? "off, or any of " : "any of ") + accepted + ", separated by commas";
}

std::string parse(const std::string& text, int64_t* into) {
  return parse_integer(text, into);
}
std::string parse(const std::string& text, uint64_t* into) {
  return parse_bytes(text, into);
}

// Parses a number within the bounds of `accepted`, "LOW..HIGH".
template <class Number>
bool understood_number(const Row& row, const std::string& text, Number* into) {
  const std::string accepted = row.accepted, bounds = accepted.substr(0, accepted.find(' '));
  const size_t dots = bounds.find("..");
  Number low = 0, high = 0;
  return parse(bounds.substr(0, dots), &low).empty() && parse(bounds.substr(dots + 2), &high).empty() &&
         parse(text, into).empty() && *into >= low && *into <= high;
}

bool understood(const Row&, const std::string& text, bool* into) {
  return parse_boolean(text, into).empty();
}
bool understood(const Row& row, const std::string& text, int64_t* into) {
  return understood_number(row, text, into);
}
bool understood(const Row& row, const std::string& text, uint64_t* into) {
  return understood_number(row, text, into);
}
bool is_one_of(std::string words, const std::string& word) {
  words = "|" + words + "|";
  return word.find('|') == std::string::npos && words.find("|" + word + "|") != std::string::npos;
}
bool understood(const Row& row, const std::string& text, std::string* into) {
  *into = *row.accepted ? lower(text) : text;
  return !*row.accepted || is_one_of(row.accepted, *into);
}
// Calls take(item) for each item between commas, until one returns false.
template <class Take>
bool each_item(const std::string& text, const Take& take) {
  for (size_t start = 0, comma = 0; comma != std::string::npos; start = comma + 1) {
    comma = text.find(',', start);
    if (!take(text.substr(start, comma - start))) return false;
  }
  return true;
}
bool understood(const Row& row, const std::string& text, std::set<std::string>* into) {
  into->clear();
  if (lower(text) == "off") return may_be_off(row);
  return each_item(text, [&](const std::string& item) {
    std::string word;
    if (!understood(row, item, &word)) return false;
    into->insert(word);
    return true;
  });
}
bool understood(const Row& row, const std::string& text, Options::numbers* into) {
  into->clear();
  if (!may_be_off(row) && text != row.initial) (void)understood(row, row.initial, into);
  if (lower(text) == "off") return may_be_off(row);
  return each_item(text, [&](const std::string& item) {
    const size_t colon = item.find(':');
    const std::string name = lower(item.substr(0, colon));
    const std::string number = colon != std::string::npos ? item.substr(colon + 1)
                               : may_be_off(row)          ? "1"
                                                          : "";
    return is_one_of(std::strchr(row.accepted, ' ') + 1, name) &&
           understood_number(row, number, &(*into)[name]);
  });
}

std::string not_understood(const Row& row, const std::string& variable, const std::string& text) {
  return variable + "=" + text + " is not understood (accepted: " + accepted_words(row) + "); using " +
         row.initial;
}

// Only one rank reports errors, because all ranks read the same variables.
bool speaks_for_the_job() {
  auto job = job_from_environment();
  return !job || job->rank <= 0;
}

// Counts letters that are missing, superfluous, wrong, or swapped with their neighbour.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), line(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) line[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(line);
    line[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      line[j] = std::min({above[j] + 1, line[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) line[j] = std::min(line[j], before[j - 2] + 1);
    }
  }
  return line[b.size()];
}

bool is_ours(const std::string& variable) {
  return variable.rfind(prefix, 0) == 0 && variable.rfind(foreign_prefix, 0) != 0 &&
         std::find(std::begin(foreign), std::end(foreign), variable) == std::end(foreign);
}

// Returns "" for names of options, and for variables that are not Fairlead's.
std::string complaint_about_name(const std::string& variable) {
  if (!is_ours(variable)) return {};
  std::vector<std::string> known;
  for (const Row& row : rows) known.push_back(variable_of(row.name));
  if (std::find(known.begin(), known.end(), variable) != known.end()) return {};
  std::string nearest = nearest_name(variable, known, std::strlen(prefix));
  return "unknown option " + variable + " is ignored" +
         (nearest.empty() ? "" : "; did you mean " + nearest + "?");
}

void report_unknown_variables() {
  for (const char* const* entry = environment_variables(); *entry; ++entry) {
    std::string variable = std::string(*entry).substr(0, std::string(*entry).find('='));
    std::string complaint = complaint_about_name(variable);
    if (!complaint.empty() && !said_before(variable)) log_line(LogLevel::warn, "%s", complaint.c_str());
  }
}

struct Loaded {
  Options options;
  std::map<std::string, std::pair<std::string, std::string>> seen;  // name -> value, origin
};

template <class Field>
void load(Loaded& loaded, const Row& row, Field* field) {
  std::string text = row.initial, origin = "default";
  std::string variable = variable_of(row.name);
  if (const char* value = environment_variable(variable.c_str())) {
    text = value;
    origin = variable;
  } else {
    for (const Alias& alias : aliases) {
      const char* given = environment_variable(alias.variable);
      if (!given || std::strcmp(alias.name, row.name) != 0) continue;
      text = given;
      origin = alias.variable;
      break;
    }
  }
  if (!understood(row, text, field)) {
    if (speaks_for_the_job() && !said_before(origin))
      log_line(LogLevel::warn, "%s", not_understood(row, origin, text).c_str());
    understood(row, text = row.initial, field);
    origin = "default";
  }
  loaded.seen[row.name] = {text, origin};
}

const Loaded& loaded() {
  // Never destroyed: code reads options until the very end of the process.
  static const Loaded* once = [] {
    auto* fresh = new Loaded;
    const Row* row = rows;
#define FAIRLEAD_OPTION(kind, name, type, initial, accepted, help) load(*fresh, *row++, &fresh->options.name);
#define FAIRLEAD_ALIAS(name, variable)
#include "base/options.def"
#undef FAIRLEAD_OPTION
#undef FAIRLEAD_ALIAS
    if (speaks_for_the_job()) report_unknown_variables();
    return fresh;
  }();
  return *once;
}

}  // namespace

const Options& options() {
  return loaded().options;
}

std::vector<OptionReport> describe_options() {
  std::vector<OptionReport> reports;
  for (const Row& row : rows) {
    const auto& [value, origin] = loaded().seen.at(row.name);
    reports.push_back({row.kind, row.name, variable_of(row.name), row.type, row.initial, accepted_words(row),
                       row.help, value, origin});
  }
  return reports;
}

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates, size_t prefix) {
  std::string nearest;
  size_t best = std::numeric_limits<size_t>::max();
  for (const std::string& candidate : candidates) {
    size_t distance = edit_distance(name, candidate);
    if (distance < best) best = distance, nearest = candidate;
  }
  // A misspelt name still equals most of the correct one.
  bool close = !nearest.empty() && best * 3 <= nearest.size() - std::min(prefix, nearest.size());
  return close ? nearest : "";
}

std::string complaint_about(const std::string& variable, const std::string& value) {
  [[maybe_unused]] Options scratch;
#define FAIRLEAD_OPTION(kind, field, type, initial, accepted, help)                              \
  if (Row row{#kind, #field, #type, initial, accepted, help}; variable == variable_of(row.name)) \
    return understood(row, value, &scratch.field) ? "" : not_understood(row, variable, value);
#define FAIRLEAD_ALIAS(name, variable)
#include "base/options.def"
#undef FAIRLEAD_OPTION
#undef FAIRLEAD_ALIAS
  return complaint_about_name(variable);
}

std::string parse_boolean(const std::string& text, bool* into) {
  std::string word = lower(text);
  for (const char* yes : {"1", "on", "yes", "true"})
    if (word == yes) return *into = true, std::string();
  for (const char* no : {"0", "off", "no", "false"})
    if (word == no) return *into = false, std::string();
  return std::string("accepted: ") + boolean_words;
}

std::string parse_integer(const std::string& text, int64_t* into) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return "accepted: a whole number";
  *into = value;
  return {};
}

std::string parse_bytes(const std::string& text, uint64_t* into) {
  const std::string accepted = std::string("accepted: ") + size_words;
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return accepted;
  std::string unit = lower(std::string(end, text.data() + text.size()));
  unsigned shift = 0;
  if (unit == "k" || unit == "kb" || unit == "kib")
    shift = 10;
  else if (unit == "m" || unit == "mb" || unit == "mib")
    shift = 20;
  else if (unit == "g" || unit == "gb" || unit == "gib")
    shift = 30;
  else if (!unit.empty() && unit != "b")
    return accepted;
  if (shift && value >> (63 - shift)) return accepted;
  *into = value << shift;
  return {};
}

}  // namespace fairlead
