// SPDX-License-Identifier: Apache-2.0

#include "base/memory/memory_kinds.h"

#include <algorithm>
#include <cctype>

namespace fairlead {
namespace {

using Restrictors = std::vector<std::string>;

const AllocationKind known[] = {
    {"system", {}},
    {"mpi", {"alloc_mem", "win_allocate", "win_allocate_shared"}},
    {"cuda", {"host", "device", "managed"}},
    {"rocm", {"host", "device", "managed"}},
    {"level_zero", {"host", "device", "shared"}},
    {"sim", {"host", "device", "managed"}},
};

bool has(const Restrictors& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

// Null for a kind that only the host MPI knows.
const AllocationKind* find_known(const std::string& name) {
  const auto* found = std::find_if(std::begin(known), std::end(known),
                                   [&](const AllocationKind& kind) { return kind.name == name; });
  return found == std::end(known) ? nullptr : found;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string without_blanks_around(const std::string& text) {
  const size_t from = text.find_first_not_of(" \t");
  return from == std::string::npos ? "" : text.substr(from, text.find_last_not_of(" \t") + 1 - from);
}

bool is_word(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

}  // namespace

std::string AllocationKind::text() const {
  std::string all = name;
  for (const std::string& restrictor : restrictors) all += ":" + restrictor;
  return all;
}

KindList KindList::parse(const std::string& text, std::vector<std::string>* wrong) {
  KindList list;
  if (without_blanks_around(text).empty()) return list;
  for (const std::string& part : split(text, ',')) {
    std::vector<std::string> words = split(without_blanks_around(part), ':');
    if (std::all_of(words.begin(), words.end(), is_word))
      list.kinds_.push_back({words[0], Restrictors(words.begin() + 1, words.end())});
    else if (wrong)
      wrong->push_back(part);
  }
  return list;
}

KindList KindList::all_of(const std::string& name) {
  KindList list;
  list.kinds_.push_back({name, {}});
  if (const AllocationKind* kind = find_known(name))
    for (const std::string& restrictor : kind->restrictors) list.kinds_.push_back({name, {restrictor}});
  return list;
}

bool KindList::covers(const AllocationKind& kind) const {
  if (const AllocationKind* all = find_known(kind.name))
    for (const std::string& restrictor : kind.restrictors)
      if (!has(all->restrictors, restrictor)) return false;
  auto in_an_entry = [&](auto&& fits) {
    return std::any_of(kinds_.begin(), kinds_.end(), [&](const AllocationKind& entry) {
      return entry.name == kind.name && (entry.restrictors.empty() || fits(entry));
    });
  };
  if (kind.restrictors.empty()) return in_an_entry([](const AllocationKind&) { return false; });
  return std::all_of(kind.restrictors.begin(), kind.restrictors.end(), [&](const std::string& restrictor) {
    return in_an_entry([&](const AllocationKind& entry) { return has(entry.restrictors, restrictor); });
  });
}

bool KindList::covers(const KindList& other) const {
  return std::all_of(other.kinds_.begin(), other.kinds_.end(),
                     [&](const AllocationKind& kind) { return covers(kind); });
}

void KindList::add(const KindList& other) {
  for (const AllocationKind& kind : other.kinds_) add(kind);
}

void KindList::add(const AllocationKind& kind) {
  if (std::find(kinds_.begin(), kinds_.end(), kind) == kinds_.end()) kinds_.push_back(kind);
}

std::string KindList::text() const {
  std::string all;
  for (const AllocationKind& kind : kinds_) all += (all.empty() ? "" : ",") + kind.text();
  return all;
}

}  // namespace fairlead
