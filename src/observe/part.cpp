// SPDX-License-Identifier: Apache-2.0

#include "observe/part.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/output_file.h"
#include "base/system/printable.h"
#include "observe/trace_file.h"

namespace fairlead::observe {
namespace {

constinit KeptProcess in_ordinary_memory{};
constinit KeptProcess* own = &in_ordinary_memory;

// What is read of one process. Numbers may be anything.
class Reader {
 public:
  explicit Reader(uint64_t end) : end_(end) {}

  void read(const KeptBlock& block) {
    switch (static_cast<Kept>(block.kind)) {
      case Kept::process:
        return read_as<KeptProcess>(block);
      case Kept::messages:
        return read_as<KeptMessages>(block);
      case Kept::calls:
        return read_as<KeptCalls>(block);
      case Kept::phase_name:
        return read_as<KeptPhaseName>(block);
      case Kept::phase:
        return read_as<KeptPhase>(block);
      case Kept::events:
        return read_as<KeptEvents>(block);
      case Kept::none:
        return;
    }
  }

  // Null if the process has not become a rank.
  Part* part() {
    if (part_.rank < 0 || part_.rank >= part_.ranks || part_.ranks > most_ranks) return nullptr;
    for (auto& [thread, events] : events_) {
      // Only now are all names known: a phase may have begun behind the piece that its events are in.
      for (Event& event : events)
        if (event.kind == EventKind::phase) event.what = number_of_phase(names_[event.what]);
      part_.logs.push_back({thread, std::move(events)});
      part_.logs.back().sort();
    }
    events_.clear();
    return &part_;
  }

 private:
  template <class Block>
  void read_as(const KeptBlock& block) {
    if (block.bytes >= sizeof(Block)) read(*static_cast<const Block*>(block.data));
  }
  template <size_t length>
  static std::string text(const char (&kept)[length]) {
    return printable(std::string(kept, strnlen(kept, length)));
  }

  void read(const KeptProcess& process) {
    part_.rank = process.rank;
    part_.ranks = process.ranks;
    part_.job = process.job;
    part_.started = process.started;
    part_.start_of_trace = process.start_of_trace;
    part_.clock = process.clock;
    part_.reported = process.reported != 0;
    part_.dropped = process.dropped;
    part_.messages.clear();
    part_.bytes.clear();
    for (const TrafficCount& count : process.traffic) {
      part_.messages.push_back(count.messages);
      part_.bytes.push_back(count.bytes);
    }
    part_.fallbacks.assign(process.fallbacks.begin(), process.fallbacks.end());
  }
  void read(const KeptMessages& cell) {
    if (cell.key.path >= Traffic{} && cell.key.path < Traffic::rows) cell.add_to(&part_.tallies[cell.key]);
  }
  void read(const KeptCalls& cell) {
    Tally tally;
    cell.add_to(&tally);
    if (const uint64_t since = cell.open_since) {
      tally.add(0, end_ - std::min(end_, since));
      add({EventKind::call, cell.function, since, end_, 0}, cell.thread);
    }
    if (tally.count == 0) return;
    part_.tallies[{cell.function, calls}].add(tally);
    part_.sites[{cell.function, {text(cell.file), cell.offset}}].add(tally);
  }
  void read(const KeptPhaseName& name) { names_[name.number] = text(name.text); }
  // Outer phases and names are noted before.
  void read(const KeptPhase& kept) {
    std::vector<std::string> path = paths_[kept.outer];
    if (path.size() == deepest) {
      paths_[kept.number] = std::move(path);
      return;
    }
    path.push_back(names_[kept.name]);
    Phase* phase = &part_.phases;
    for (const std::string& name : path) phase = phase->find_or_add(name);
    paths_[kept.number] = std::move(path);
    phase->count += kept.count;
    phase->nanoseconds += kept.nanoseconds;
    if (const uint64_t since = kept.open_since) {
      ++phase->count;
      phase->nanoseconds += end_ - std::min(end_, since);
      add({EventKind::phase, kept.name, since, end_, 0}, kept.thread);
    }
  }
  void read(const KeptEvents& kept) {
    for (size_t i = 0; i < std::min<size_t>(kept.used, events_per_piece); ++i)
      add(kept.events[i], kept.thread);
  }

  void add(const Event& event, int thread) {
    if (part_.start_of_trace == 0 || event.kind > EventKind::received || event.what < 0) return;
    events_[thread].push_back(event);
  }

  static constexpr int most_ranks = 1 << 24;
  static constexpr size_t deepest = 64;
  const uint64_t end_;
  Part part_;
  std::map<int, std::string> names_;                    // of phases
  std::map<uint32_t, std::vector<std::string>> paths_;  // of phases
  std::map<int, std::vector<Event>> events_;            // by thread
};

void add(const std::vector<uint64_t>& more, std::vector<uint64_t>* sum) {
  sum->resize(std::max(sum->size(), more.size()));
  for (size_t i = 0; i < more.size(); ++i) (*sum)[i] += more[i];
}

// The parts are sorted.
std::vector<int> missing_ranks(const std::vector<Part>& parts) {
  std::vector<int> missing;
  auto next = parts.begin();
  for (int rank = 0; rank < parts.front().ranks; ++rank) {
    while (next != parts.end() && next->rank < rank) ++next;
    if (next == parts.end() || next->rank != rank) missing.push_back(rank);
  }
  return missing;
}

}  // namespace

KeptProcess& own_part() {
  return *own;
}

void open_part(int file) {
  // What a child of fork() records would be mixed with what its parent does.
  static const int forgets = pthread_atfork(nullptr, nullptr, [] {
    detail::recording = false;
    detail::tracing = false;
  });
  (void)forgets;
  keep_in(file);
  auto* const kept = keep<KeptProcess>(Kept::process);
  kept->rank = -1;
  for (size_t i = 0; i < kept->traffic.size(); ++i) {
    kept->traffic[i].messages = own->traffic[i].messages.load();
    kept->traffic[i].bytes = own->traffic[i].bytes.load();
  }
  for (size_t i = 0; i < kept->fallbacks.size(); ++i) kept->fallbacks[i] = own->fallbacks[i].load();
  own = kept;
}

// The events of a job that has reported need not be read, which would take long.
LeftParts parts_in(int file, uint64_t end) {
  std::map<int, Reader> readers;  // by process
  visit_kept(file, [&](const KeptBlock& block) {
    if (static_cast<Kept>(block.kind) == Kept::process)
      readers.try_emplace(block.process, end).first->second.read(block);
  });
  LeftParts left;
  std::set<uint64_t> reported;
  std::map<uint64_t, uint64_t> started;  // by job
  for (auto& [process, reader] : readers)
    if (const Part* part = reader.part()) {
      if (part->reported) reported.insert(part->job);
      uint64_t& first = started.try_emplace(part->job, part->started).first->second;
      first = std::min(first, part->started);
    }
  left.after_others = !reported.empty();
  for (auto entry = readers.begin(); entry != readers.end();) {
    const Part* part = entry->second.part();
    entry = !part || reported.contains(part->job) ? readers.erase(entry) : std::next(entry);
  }
  if (readers.empty()) return left;
  visit_kept(file, [&](const KeptBlock& block) {
    const auto reader = readers.find(block.process);
    if (reader != readers.end() && static_cast<Kept>(block.kind) != Kept::process) reader->second.read(block);
  });
  for (auto& [process, reader] : readers)
    if (Part* part = reader.part()) left.parts.push_back(std::move(*part));
  std::ranges::stable_sort(
      left.parts, {}, [&](const Part& part) { return std::tuple(started[part.job], part.job, part.rank); });
  return left;
}

Report joined(const std::vector<Part>& parts, uint64_t end) {
  Report report;
  std::vector<std::string> phases;
  Sites sites;
  // The values of the ranks, whose numbers may have gaps.
  auto spread = [&](auto value_of) {
    std::vector<uint64_t> of_ranks;
    of_ranks.reserve(parts.size());
    for (const Part& part : parts) of_ranks.push_back(value_of(part));
    Spread found = spread_of(std::move(of_ranks));
    found.least_rank = parts[static_cast<size_t>(found.least_rank)].rank;
    found.most_rank = parts[static_cast<size_t>(found.most_rank)].rank;
    return found;
  };
  for (const Part& part : parts) {
    add(part.messages, &report.messages);
    add(part.bytes, &report.bytes);
    add(part.fallbacks, &report.fallbacks);
    for (const auto& [key, tally] : part.tallies) report.tallies[key].add(tally);
    for (const auto& [site, tally] : part.sites) sites[site].add(tally);
    phases.push_back(encode(part.phases));
    report.seconds = std::max(report.seconds, static_cast<double>(end - std::min(end, part.started)) * 1e-9);
  }
  report.ranks = static_cast<int>(parts.size());
  for (const auto& [key, tally] : report.tallies) {
    if (key.path != calls) continue;
    auto of = [&key = key](const Part& part) {
      const auto its = part.tallies.find(key);
      return its == part.tallies.end() ? Tally() : its->second;
    };
    report.spreads[key.function] = {spread([&](const Part& part) { return of(part).nanoseconds; }),
                                    spread([&](const Part& part) { return of(part).count; })};
  }
  report.in_mpi = spread([](const Part& part) {
    uint64_t sum = 0;
    for (const auto& [key, tally] : part.tallies)
      if (key.path == calls) sum += tally.nanoseconds;
    return sum;
  });
  report.sites = listed(sites, true);
  report.phases = add_up(phases);
  report.missing = missing_ranks(parts);
  return report;
}

std::string write_joined_trace(const std::vector<Part>& parts, const std::string& path, NameOf name_of) {
  OutputFile file(path);
  file.write(head_of_trace());
  std::vector<FlowEnd> ends;
  uint64_t dropped = 0;
  for (const Part& part : parts) {
    const TraceOfRank rank{part.rank, host_name(), part.clock, part.start_of_trace};
    write_events(rank, part.logs, name_of, [&](const std::string& text) { file.write(text); });
    for (const FlowEnd& flow_end : flow_ends(rank, part.logs)) ends.push_back(flow_end);
    dropped += part.dropped;
  }
  const Flows flows = draw_flows(std::move(ends));
  file.write(flows.lines);
  file.write(
      tail_of_trace(static_cast<int>(parts.size()), dropped, flows, Provenance(), missing_ranks(parts)));
  return file.close();
}

}  // namespace fairlead::observe
