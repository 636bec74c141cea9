// SPDX-License-Identifier: Apache-2.0

#include "coll/tuning.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "base/options.h"
#include "base/small_file.h"

namespace fairlead::coll {
namespace {

constexpr const char* shipped = R"(
allgather       meet     ..     ..256k
allgather       kernel   ..     ..1m
allgather       engine   3..    64m..
allgather       written  3..    ..
allgather       kernel   ..     ..
allreduce       meet     ..     ..64k
allreduce       oneshot  3..4   ..128k
allreduce       oneshot  5..    ..64k
allreduce       sliced   ..     ..
alltoall        meet     ..     ..256k
alltoall        kernel   ..     ..
bcast           direct   ..     ..64k
bcast           sliced   ..     ..
bcast           direct   ..     ..
gather          engine   ..     8m..
gather          kernel   ..     ..
reduce          oneshot  ..     ..256k
reduce          sliced   3..    ..
reduce          oneshot  ..     ..
reduce_scatter  meet     ..     ..32k
reduce_scatter  oneshot  ..     ..
scan            oneshot  ..     ..
scatter         engine   ..     ..
)";

void add(std::string* list, std::string_view name) {
  *list += (list->empty() ? "" : ", ") + std::string(name);
}

std::string parse_algorithm(const std::string& family, const std::string& name, Algorithm* into) {
  std::string known, of_family;
  for (const FamilyRow& row : families) add(&known, row.name);
  for (const AlgorithmRow& row : algorithms) {
    if (row_of(row.family).name != family) continue;
    add(&of_family, row.name);
    if (row.name != name) continue;
    *into = row.id;
    return {};
  }
  if (of_family.empty()) return "'" + family + "' is not a collective; accepted: " + known;
  return "'" + name + "' is not an algorithm of " + family + "; accepted: " + of_family;
}

bool parse_number(const std::string& text, bool in_bytes, uint64_t* into) {
  if (in_bytes) return parse_bytes(text, into).empty();
  int64_t number = 0;
  if (!parse_integer(text, &number).empty() || number < 0) return false;
  *into = static_cast<uint64_t>(number);
  return true;
}

std::string parse_range(const std::string& text, bool in_bytes, Range* into) {
  size_t dots = text.find("..");
  std::string low = text.substr(0, dots), high = dots == std::string::npos ? low : text.substr(dots + 2);
  Range range;
  bool one = dots == std::string::npos;
  bool good = (low.empty() && !one) || parse_number(low, in_bytes, &range.low);
  good = good && ((high.empty() && !one) || parse_number(high, in_bytes, &range.high));
  if (!good || range.low > range.high)
    return "'" + text + "' is not a range of " + (in_bytes ? "bytes" : "ranks") +
           "; accepted: N, LOW.., ..HIGH, LOW..HIGH or .. with " +
           (in_bytes ? "sizes such as 4096, 64k, 1m, 2g" : "whole numbers");
  *into = range;
  return {};
}

std::string parse_rule(const std::vector<std::string>& words, Rule* into) {
  if (words.size() != 4)
    return std::to_string(words.size()) + (words.size() == 1 ? " word" : " words") +
           "; accepted: COLLECTIVE ALGORITHM RANKS BYTES";
  std::string wrong = parse_algorithm(words[0], words[1], &into->algorithm);
  if (wrong.empty()) wrong = parse_range(words[2], false, &into->ranks);
  if (wrong.empty()) wrong = parse_range(words[3], true, &into->bytes);
  return wrong;
}

std::string size_text(uint64_t number) {
  for (auto [unit, shift] : {std::pair("g", 30), std::pair("m", 20), std::pair("k", 10)})
    if (number && number % (uint64_t{1} << shift) == 0) return std::to_string(number >> shift) + unit;
  return std::to_string(number);
}

template <class Text>
std::string range_text(const Range& range, Text text) {
  if (range.low == range.high) return text(range.low);
  return (range.low ? text(range.low) : "") + ".." + (range.high < UINT64_MAX ? text(range.high) : "");
}

}  // namespace

std::string parse_rules(const std::string& text, const std::string& file, Rules* into) {
  Rules rules;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream before_comment(line.substr(0, line.find('#')));
    std::vector<std::string> words(std::istream_iterator<std::string>(before_comment), {});
    if (words.empty()) continue;
    Rule rule{};
    if (std::string wrong = parse_rule(words, &rule); !wrong.empty())
      return file + ":" + std::to_string(number) + ": " + wrong;
    rules.push_back(rule);
  }
  into->insert(into->end(), rules.begin(), rules.end());
  return {};
}

std::string read_rules(const std::string& file, Rules* into) {
  std::string text, wrong = read_small_file(file, &text);
  return wrong.empty() ? parse_rules(text, file, into) : wrong;
}

std::string to_text(const Rule& rule) {
  const AlgorithmRow& row = row_of(rule.algorithm);
  std::string line(row_of(row.family).name);
  auto column = [&line](size_t width, std::string_view word) {
    line.resize(std::max(line.size() + 1, width), ' ');
    line += word;
  };
  column(16, row.name);
  column(25, range_text(rule.ranks, [](uint64_t number) { return std::to_string(number); }));
  column(32, range_text(rule.bytes, size_text));
  return line;
}

const Rules& shipped_rules() {
  static const Rules& rules = *[] {
    auto* parsed = new Rules;
    parse_rules(shipped, "shipped rules", parsed);
    return parsed;
  }();
  return rules;
}

}  // namespace fairlead::coll
