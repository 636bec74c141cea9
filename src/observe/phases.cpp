// SPDX-License-Identifier: Apache-2.0

#include "observe/phases.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <sstream>

#include "observe/json/json.h"
#include "observe/part.h"
#include "observe/per_thread.h"
#include "observe/ranges.h"
#include "observe/recorder.h"
#include "observe/report.h"
#include "observe/trace.h"

namespace fairlead::observe {
namespace {

// A lock is cheap compared to the length of a phase.
std::mutex mutex;
auto& numbers = *new std::map<std::string, int>;
auto& names = *new std::deque<std::string>;

// In the encoded form each phase is one line, with fields separated by tabs.
std::string on_one_line(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < ' '; }, ' ');
  return name;
}

struct Node {
  KeptPhase* kept;
  std::vector<Node*> inner = {};
};

std::atomic<uint32_t> nodes{0};

Node* new_node(const Node& outer, int name) {
  auto* const kept = keep<KeptPhase>(Kept::phase);
  kept->name = name;
  kept->outer = outer.kept->number;
  kept->number = ++nodes;
  kept->thread = number_of_thread();
  return new Node{kept};
}

struct Thread {
  struct Open {
    Node* node;
    uint64_t since;
  };
  std::mutex mutex;  // uncontended except while another thread reads
  KeptPhase kept_root{};
  Node root{&kept_root};
  std::vector<Open> open;
};

void collect(const Node& from, Phase* into) {
  into->count += from.kept->count;
  into->nanoseconds += from.kept->nanoseconds;
  for (const Node* inner : from.inner) collect(*inner, into->find_or_add(name_of_phase(inner->kept->name)));
}

void encode(const Phase& phase, int depth, std::ostringstream* text) {
  if (depth > 0)
    *text << depth << '\t' << phase.count << '\t' << phase.nanoseconds << '\t' << phase.name << '\n';
  for (const Phase& inner : phase.inner) encode(inner, depth + 1, text);
}

// Adds the tree of a rank to `sum`, which contains `ranks_before` ranks.
void add(const Phase& of_rank, size_t ranks_before, Phase* sum) {
  sum->count += of_rank.count;
  sum->nanoseconds += of_rank.nanoseconds;
  sum->least = ranks_before == 0 ? of_rank.nanoseconds : std::min(sum->least, of_rank.nanoseconds);
  sum->most = std::max(sum->most, of_rank.nanoseconds);
  for (const Phase& inner : of_rank.inner) add(inner, ranks_before, sum->find_or_add(inner.name));
}

// A rank whose tree lacks a phase spent no time in it.
void note_missing(const Phase* of_rank, Phase* sum) {
  for (Phase& inner : sum->inner) {
    const Phase* same = nullptr;
    for (size_t i = 0; of_rank && i < of_rank->inner.size(); ++i)
      if (of_rank->inner[i].name == inner.name) same = &of_rank->inner[i];
    if (!same) inner.least = 0;
    note_missing(same, &inner);
  }
}

Phase decode(const std::string& text) {
  Phase root;
  std::vector<Phase*> path = {&root};
  std::istringstream lines(text);
  size_t depth;
  uint64_t count, nanoseconds;
  std::string name;
  while (lines >> depth >> count >> nanoseconds && lines.get() && std::getline(lines, name)) {
    path.resize(depth);
    Phase* phase = path.back()->find_or_add(name);
    phase->count = count;
    phase->nanoseconds = nanoseconds;
    path.push_back(phase);
  }
  return root;
}

void append_rows(const Phase& phase, int depth, int ranks, std::string* text) {
  for (const Phase& inner : phase.inner) {
    char line[512];
    auto words = [](uint64_t nanoseconds) { return in_words_of_time(static_cast<double>(nanoseconds)); };
    std::string name = std::string(static_cast<size_t>(2 * depth), ' ') + inner.name;
    std::snprintf(line, sizeof line, "%-27.200s %8llu %8s %8s %7s %7s %7s\n", name.c_str(),
                  static_cast<unsigned long long>(inner.count), words(inner.nanoseconds).c_str(),
                  words(inner.self()).c_str(),
                  words(inner.nanoseconds / static_cast<uint64_t>(ranks)).c_str(), words(inner.least).c_str(),
                  words(inner.most).c_str());
    *text += line;
    append_rows(inner, depth + 1, ranks, text);
  }
}

void append_json(const Phase& phase, const std::string& path, int ranks, std::vector<std::string>* elements) {
  auto seconds = [](uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; };
  for (const Phase& inner : phase.inner) {
    const std::string inner_path = path + (path.empty() ? "" : ", ") + json_string(inner.name);
    elements->push_back(JsonObject()
                            .add_json("path", "[" + inner_path + "]")
                            .add("count", inner.count)
                            .add("seconds", seconds(inner.nanoseconds), 9)
                            .add("self", seconds(inner.self()), 9)
                            .add("mean", seconds(inner.nanoseconds) / ranks, 9)
                            .add("min", seconds(inner.least), 9)
                            .add("max", seconds(inner.most), 9)
                            .text());
    append_json(inner, inner_path, ranks, elements);
  }
}

}  // namespace

void begin_phase(const char* name) {
  if (!recording() || !name) return;
  std::string words = on_one_line(name);
  int number = number_of_phase(words);
  Thread& thread = PerThread<Thread>::mine();
  std::lock_guard lock(thread.mutex);
  Node& outer = thread.open.empty() ? thread.root : *thread.open.back().node;
  auto found = std::find_if(outer.inner.begin(), outer.inner.end(),
                            [&](const Node* n) { return n->kept->name == number; });
  Node& node = found != outer.inner.end() ? **found : *outer.inner.emplace_back(new_node(outer, number));
  if (ranges()) begin_range(words.c_str());
  thread.open.push_back({&node, now()});
  node.kept->open_since.store(thread.open.back().since, std::memory_order_relaxed);
}

void end_phase() {
  if (!recording()) return;
  uint64_t end = now();
  Thread& thread = PerThread<Thread>::mine();
  std::lock_guard lock(thread.mutex);
  if (thread.open.empty()) return;
  auto [node, since] = thread.open.back();
  thread.open.pop_back();
  ++node->kept->count;
  node->kept->nanoseconds += end - since;
  node->kept->open_since.store(0, std::memory_order_relaxed);
  if (ranges()) end_range();
  if (tracing()) trace({EventKind::phase, node->kept->name, since, end, 0});
}

int number_of_phase(const std::string& name) {
  std::lock_guard lock(mutex);
  auto [found, fresh] = numbers.try_emplace(name, static_cast<int>(names.size()));
  if (fresh) {
    names.push_back(name);
    auto* const kept = keep<KeptPhaseName>(Kept::phase_name);
    name.copy(kept->text, sizeof kept->text - 1);
    kept->number = found->second;
  }
  return found->second;
}

const char* name_of_phase(int number) {
  std::lock_guard lock(mutex);
  return names[static_cast<size_t>(number)].c_str();
}

Phase* Phase::find_or_add(const std::string& wanted) {
  for (Phase& phase : inner)
    if (phase.name == wanted) return &phase;
  inner.push_back({wanted, 0, 0, 0, 0, {}});
  return &inner.back();
}

uint64_t Phase::self() const {
  uint64_t rest = nanoseconds;
  for (const Phase& phase : inner) rest -= std::min(rest, phase.nanoseconds);
  return rest;
}

Phase own_phases() {
  Phase root;
  PerThread<Thread>::visit_all([&](Thread& thread, int) {
    std::lock_guard lock(thread.mutex);
    collect(thread.root, &root);
  });
  return root;
}

std::string encode(const Phase& root) {
  std::ostringstream text;
  encode(root, 0, &text);
  return text.str();
}

Phase add_up(const std::vector<std::string>& encoded) {
  std::vector<Phase> of_ranks;
  for (const std::string& text : encoded) of_ranks.push_back(decode(text));
  Phase sum;
  for (size_t i = 0; i < of_ranks.size(); ++i) add(of_ranks[i], i, &sum);
  for (const Phase& of_rank : of_ranks) note_missing(&of_rank, &sum);
  return sum;
}

std::string as_table(const Phase& root, int ranks) {
  if (root.inner.empty()) return {};
  char heading[128];
  std::snprintf(heading, sizeof heading, "%-27s %8s %8s %8s %7s %7s %7s\n", "phases (mean: per rank)",
                "count", "total", "self", "mean", "min", "max");
  std::string text = heading;
  append_rows(root, 0, ranks, &text);
  return text;
}

std::vector<std::string> as_json(const Phase& root, int ranks) {
  std::vector<std::string> elements;
  append_json(root, "", ranks, &elements);
  return elements;
}

}  // namespace fairlead::observe
