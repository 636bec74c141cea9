// SPDX-License-Identifier: Apache-2.0

#include "coll/choice.h"

#include <algorithm>

#include "base/options.h"

namespace fairlead::coll {
namespace {

// Constructed at first use: the library is also loaded into processes that never run a collective.
Choice& in_force() {
  static auto& made = *new Choice;
  return made;
}

std::string word_for(const AlgorithmRow& row) {
  return std::string(row_of(row.family).name) + ":" + std::string(row.name);
}

bool possible(Algorithm algorithm, int members, Among among) {
  const AlgorithmRow& row = row_of(algorithm);
  return members >= row.members && (among.nccl || !is_nccl(algorithm)) &&
         (among.meet || !is_meeting(algorithm));
}

}  // namespace

// A word for one family takes precedence over `staged`, the word for all families, because `staged` is the
// last row of each family.
Choice::Choice(const std::set<std::string>& words, const Rules& rules) {
  for (const AlgorithmRow& row : algorithms) {
    std::optional<Algorithm>& forced = families_[static_cast<size_t>(row.family)].forced;
    bool named = words.contains(word_for(row)), for_all = words.contains(std::string(row.name));
    if (!forced && (named || for_all)) forced = row.id;
  }
  for (const Rules* some : {&rules, &shipped_rules()})
    for (const Rule& rule : *some) {
      OfFamily& family = families_[static_cast<size_t>(row_of(rule.algorithm).family)];
      family.rules.push_back(rule);
      family.given += some == &rules;
    }
}

size_t Choice::OfFamily::first_that_fits(uint64_t bytes, int members, Among among) const {
  auto fits = [&](const Rule& rule) {
    return rule.ranks.holds(static_cast<uint64_t>(members)) && rule.bytes.holds(bytes) &&
           possible(rule.algorithm, members, among);
  };
  auto found = std::find_if(rules.begin(), rules.end(), fits);
  return static_cast<size_t>((found == rules.end() ? found - 1 : found) - rules.begin());
}

Algorithm Choice::of(Family family, uint64_t bytes, int members, Among among) const {
  const OfFamily& here = families_[static_cast<size_t>(family)];
  if (here.forced && possible(*here.forced, members, among)) return *here.forced;
  return here.rules[here.first_that_fits(bytes, members, among)].algorithm;
}

const char* Choice::decided_by(Family family, uint64_t bytes, int members, Among among) const {
  const OfFamily& here = families_[static_cast<size_t>(family)];
  if (here.forced && possible(*here.forced, members, among)) return "by FAIRLEAD_COLL";
  return here.first_that_fits(bytes, members, among) < here.given ? "by the file of FAIRLEAD_TUNING"
                                                                  : "by the shipped rules";
}

Choice::Chosen Choice::of_call(Family family, uint64_t bytes, int members, bool in_place, bool nccl) const {
  Chosen chosen{of(family, bytes, members, always_possible),
                nccl && is_nccl(of(family, bytes, members, {.nccl = true}))};
  // In place, the one-shot algorithm needs an additional copy, because other ranks still read what it would
  // overwrite.
  constexpr Algorithm oneshot = Algorithm::allreduce_oneshot;
  if (chosen.algorithm == oneshot && in_place && !is_forced(oneshot))
    chosen.algorithm = Algorithm::allreduce_sliced;
  return chosen;
}

bool Choice::names_nccl() const {
  auto named_by = [](const Rule& rule) { return is_nccl(rule.algorithm); };
  return std::any_of(families_.begin(), families_.end(), [&](const OfFamily& family) {
    return (family.forced && is_nccl(*family.forced)) ||
           std::any_of(family.rules.begin(), family.rules.end(), named_by);
  });
}

bool Choice::is_forced(Algorithm algorithm) const {
  return families_[static_cast<size_t>(row_of(algorithm).family)].forced == algorithm;
}

bool Choice::must_stage(Family family) const {
  const std::optional<Algorithm>& forced = families_[static_cast<size_t>(family)].forced;
  return forced && is_staged(*forced);
}

// The hash is FNV-1a.
uint64_t Choice::digest() const {
  uint64_t digest = 0xcbf29ce484222325;
  auto include = [&digest](const std::string& text) {
    for (unsigned char byte : text + "\n") digest = (digest ^ byte) * 0x100000001b3;
  };
  for (const OfFamily& family : families_) {
    include(family.forced ? word_for(row_of(*family.forced)) : "auto");
    for (const Rule& rule : family.rules) include(to_text(rule));
  }
  return digest;
}

Choice wanted_choice(std::vector<std::string>* wrong) {
  std::set<std::string> words = options().coll;
  std::string taken[std::size(families)];
  for (const AlgorithmRow& row : algorithms) {
    std::string& first = taken[static_cast<size_t>(row.family)];
    if (!words.contains(word_for(row))) continue;
    if (!first.empty()) {
      words.erase(word_for(row));
      wrong->push_back("FAIRLEAD_COLL names " + first + " and " + word_for(row) + "; using " + first);
    } else {
      first = word_for(row);
    }
  }
  Rules rules;
  if (const std::string& file = options().tuning; file != "off")
    if (std::string reason = read_rules(file, &rules); !reason.empty())
      wrong->push_back("FAIRLEAD_TUNING: " + reason + "; using the shipped rules");
  return Choice(words, rules);
}

const Choice& choice() {
  return in_force();
}

void set_choice(Choice choice) {
  in_force() = std::move(choice);
}

}  // namespace fairlead::coll
