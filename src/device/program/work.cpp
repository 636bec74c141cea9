// SPDX-License-Identifier: Apache-2.0

#include "device/program/work.h"

#include <execinfo.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "base/options.h"
#include "device/program/cupti.h"
#include "device/program/hip_tables.h"
#include "device/program/not_the_program.h"

namespace fairlead::device::program {

constinit std::atomic<bool> NotTheProgram::anybody_listens = false;
constinit thread_local int NotTheProgram::depth = 0;

namespace {

// For streams, by number: how much of the work of each is over where this clock stands.
using Clock = std::map<uint64_t, uint64_t>;

void merge(Clock* clock, const Clock& other) {
  for (const auto& [stream, count] : other) {
    uint64_t& mine = (*clock)[stream];
    mine = std::max(mine, count);
  }
}

struct Pending {
  uint64_t count;
  std::shared_ptr<const Work> work;
  Frames submitted_by;
};

struct ProgramStream {
  uint64_t number = 0;  // handles are used again
  StreamKey key;
  const void* context = nullptr;
  StreamSort sort = StreamSort::alone;
  uint64_t submitted = 0;
  Clock before;  // what precedes the next work, apart from the stream's own
  std::deque<Pending> pending;
  uint64_t capture = 0;  // 0: none
  bool ended = false;
};

// Of work that one thread captures in some streams.
using Captured = std::vector<std::shared_ptr<const Work>>;

struct RecordedEvent {
  Clock clock;
  uint64_t capture = 0;
};

struct OpenBuffer {
  const OpenBuffers* owner;
  Buffer buffer;
  Frames opened_by;
  Report report;
};

bool covers(const WatchedBytes& watched, const Buffer& buffer) {
  return watched && std::any_of(watched->begin(), watched->end(), [&](const Watched& one) {
           return one.begin <= buffer.address && buffer.address + buffer.bytes <= one.end;
         });
}

struct State {
  std::mutex mutex;
  std::map<uint64_t, ProgramStream> streams;
  std::map<StreamKey, uint64_t> by_key;
  std::map<const void*, RecordedEvent> events;
  Clock host;
  std::map<uint64_t, Captured> captures;
  std::map<const void*, Captured> graphs;  // and what was instantiated from them
  std::vector<OpenBuffer> open;
  WatchedBytes watched;
  uint64_t numbers = 0;

  ProgramStream& stream(const StreamKey& key);
  ProgramStream& make(const StreamKey& key, const void* context, StreamSort sort);
  void take_turn(ProgramStream& stream);
  Clock clock_of(const ProgramStream& stream) const;
  void host_knows(const Clock& clock);
  void forget(uint64_t number);
  void watch(const Buffer& buffer);
};

// Never destroyed: threads of the program may go on.
State& state() {
  static auto* made = new State;
  return *made;
}

constinit Provider provider{};

// Work that nobody waits for does not accumulate for ever.
constexpr size_t remembered = 4096;

ProgramStream& State::make(const StreamKey& key, const void* context, StreamSort sort) {
  const uint64_t number = ++numbers;
  by_key[key] = number;
  ProgramStream& made = streams[number];
  made.number = number;
  made.key = key;
  made.context = context;
  made.sort = sort;
  return made;
}

// One that was made before anybody listened is taken for one that synchronises: that orders more, and so
// never accuses wrongly.
ProgramStream& State::stream(const StreamKey& key) {
  if (const auto found = by_key.find(key); found != by_key.end()) return streams[found->second];
  return key.handle ? make(key, nullptr, StreamSort::blocking)
                    : make(key, key.context, StreamSort::of_context);
}

// Work of the legacy default stream follows all of the blocking ones, and theirs follows its.
void State::take_turn(ProgramStream& stream) {
  if (stream.sort == StreamSort::alone) return;
  for (auto& [number, other] : streams) {
    if (&other == &stream || other.sort == StreamSort::alone) continue;
    if (other.context && stream.context && other.context != stream.context) continue;
    if ((stream.sort == StreamSort::of_context) != (other.sort == StreamSort::of_context))
      merge(&stream.before, clock_of(other));
  }
}

Clock State::clock_of(const ProgramStream& stream) const {
  Clock clock = stream.before;
  clock[stream.number] = stream.submitted;
  return clock;
}

// No clock needs the number of a stream that has ended, and whose work is over.
void State::forget(uint64_t number) {
  host.erase(number);
  for (auto& [other, stream] : streams) stream.before.erase(number);
  for (auto& [event, recorded] : events) recorded.clock.erase(number);
}

void State::host_knows(const Clock& clock) {
  merge(&host, clock);
  for (auto entry = streams.begin(); entry != streams.end();) {
    ProgramStream& stream = entry->second;
    const uint64_t over = host[stream.number];
    while (!stream.pending.empty() && stream.pending.front().count <= over) stream.pending.pop_front();
    if (stream.ended && stream.pending.empty()) {
      const uint64_t number = stream.number;
      entry = streams.erase(entry);
      forget(number);
    } else {
      ++entry;
    }
  }
}

// Up to a limit: a bit is kept for each byte that is read or written.
void State::watch(const Buffer& buffer) {
  constexpr size_t at_most = size_t{1} << 30;
  if (!options().check.contains("accesses") || covers(watched, buffer)) return;
  auto all = std::make_shared<std::vector<Watched>>();
  Watched joined{buffer.address, buffer.address + buffer.bytes, buffer.allocation};
  size_t bytes = joined.end - joined.begin;
  for (const Watched& one : watched ? *watched : std::vector<Watched>()) {
    bytes += one.end - one.begin;
    if (one.allocation == joined.allocation && one.begin <= joined.end && joined.begin <= one.end)
      joined = {std::min(one.begin, joined.begin), std::max(one.end, joined.end), joined.allocation};
    else
      all->push_back(one);
  }
  if (bytes > at_most) return;
  all->insert(
      std::find_if(all->begin(), all->end(), [&](const Watched& one) { return one.begin > joined.begin; }),
      joined);
  watched = std::move(all);
}

bool overlap(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

Verdict judge(const Work& work, const Buffer& buffer) {
  Verdict worst = Verdict::none;
  for (const Touched& touched : covers(work.watched, buffer) ? work.accessed : work.touched) {
    if (touched.access == Access::reads && !buffer.written) continue;
    Verdict verdict = Verdict::none;
    if (touched.bytes > 0) {
      if (overlap(touched.address, touched.bytes, buffer.address, buffer.bytes))
        verdict = touched.with_gaps || buffer.with_gaps ? Verdict::possible : Verdict::certain;
    } else if (touched.address >= buffer.allocation && touched.address < buffer.address + buffer.bytes) {
      // Drivers may round the length up.
      constexpr size_t rounded = 512;
      const uintptr_t end = buffer.allocation + buffer.allocation_bytes;
      const bool all_is_ours =
          touched.address >= buffer.address && buffer.address + buffer.bytes + rounded > end;
      verdict = all_is_ours && !buffer.with_gaps ? Verdict::certain : Verdict::possible;
    }
    worst = std::max(worst, verdict);
  }
  return worst;
}

// May the host know of the end of this work by other means than the driver's: by a function that the stream
// calls, or a word in host memory?
bool may_tell_host(const Work& work) {
  if (work.tells_host) return true;
  return std::any_of(work.touched.begin(), work.touched.end(), [](const Touched& touched) {
    return touched.address > 4096 && touched.access != Access::reads &&
           provider.host_may_read(reinterpret_cast<const void*>(touched.address));
  });
}

// The question would end a capture.
bool is_busy(const ProgramStream& stream) {
  if (!state().captures.empty()) return true;
  return !stream.ended && provider.is_busy(stream.key.handle);
}

std::string name_of(const ProgramStream& stream) {
  if (stream.sort == StreamSort::of_context) return "the default stream";
  char text[40];
  std::snprintf(text, sizeof text, "stream %p", stream.key.handle);
  return text;
}

// The caller holds the lock.
Conflict conflict_with(const ProgramStream& stream, const Buffer& buffer) {
  Conflict conflict;
  const Pending* worst = nullptr;
  for (const Pending& pending : stream.pending) {
    const Verdict verdict = judge(*pending.work, buffer);
    if (verdict == Verdict::none || verdict < conflict.verdict) continue;
    conflict.verdict = verdict;
    worst = &pending;
  }
  if (!worst) return conflict;
  // By later work of this stream, or by work of streams that have waited for it.
  const bool told = std::ranges::any_of(state().streams, [&](const auto& entry) {
    const ProgramStream& other = entry.second;
    const bool is_same = &other == &stream;
    const auto waited = other.before.find(stream.number);
    if (!is_same && (waited == other.before.end() || waited->second < worst->count)) return false;
    return std::ranges::any_of(other.pending, [&](const Pending& pending) {
      return (!is_same || pending.count >= worst->count) && may_tell_host(*pending.work);
    });
  });
  // A kernel whose accesses were recorded has been waited for, so its stream says nothing.
  if (told && !worst->work->watched && !is_busy(stream)) return {};
  if (told) conflict.verdict = Verdict::possible;
  conflict.work = worst->work->name;
  conflict.stream = name_of(stream);
  conflict.submitted_by = worst->submitted_by;
  return conflict;
}

template <class Action>
void report(Action action) {
  if (!reports()) return;
  State& all = state();
  std::lock_guard lock(all.mutex);
  action(all);
}

}  // namespace

Frames frames_here() {
  Frames frames;
  frames.depth = backtrace(frames.at, std::size(frames.at));
  return frames;
}

Work copy(const void* to, const void* from, size_t bytes, bool with_gaps) {
  if (bytes == 0) return {.name = "a copy", .touched = {}};
  return {.name = "a copy",
          .touched = {{reinterpret_cast<uintptr_t>(to), bytes, Access::writes, with_gaps},
                      {reinterpret_cast<uintptr_t>(from), bytes, Access::reads, with_gaps}}};
}

Work fill(const void* to, size_t bytes) {
  if (bytes == 0) return {.name = "a memset", .touched = {}};
  return {.name = "a memset", .touched = {{reinterpret_cast<uintptr_t>(to), bytes, Access::writes}}};
}

Work host_function() {
  return {.name = "a host function", .touched = {}, .tells_host = true};
}

bool wanted() {
  return options().check.contains("streams") || options().check.contains("accesses");
}

WatchedBytes watched_bytes() {
  std::lock_guard lock(state().mutex);
  return state().watched;
}

void watch(const Provider& chosen) {
  if (!wanted()) return;
  const std::string_view name = chosen.name;
  const bool by_driver = name == "cuda" && watch_driver();  // which loads libraries: without the lock
  std::lock_guard lock(state().mutex);
  provider = chosen;
  NotTheProgram::anybody_listens = name == "sim" || by_driver || (name == "rocm" && hip_is_seen());
}

void sees(const char* name) {
  std::lock_guard lock(state().mutex);
  if (!provider.name || provider.name == std::string_view(name)) NotTheProgram::anybody_listens = true;
}

bool seen() {
  return NotTheProgram::anybody_listens;
}

bool reports() {
  return NotTheProgram::anybody_listens && !NotTheProgram::here();
}

bool may_be_pageable(const void* address) {
  std::unique_lock lock(state().mutex);
  const auto is_pageable = provider.is_pageable;
  lock.unlock();
  return !is_pageable || is_pageable(address);
}

void stream_made(const StreamKey& key, const void* context, StreamSort sort) {
  report([&](State& all) { all.make(key, context, sort); });
}

// The work goes on. Default streams do not end.
void stream_ended(const StreamKey& key) {
  if (reinterpret_cast<uintptr_t>(key.handle) <= 2) return;
  report([&](State& all) {
    all.stream(key).ended = true;
    all.by_key.erase(key);
  });
}

void submitted(const StreamKey& key, Work work) {
  if (!reports()) return;
  State& all = state();
  const Frames here = frames_here();  // without the lock: the first time, this loads a library
  std::vector<std::pair<OpenBuffer, Conflict>> wrong;
  {
    std::lock_guard lock(all.mutex);
    ProgramStream& stream = all.stream(key);
    auto kept = std::make_shared<const Work>(std::move(work));
    if (stream.capture) {
      all.captures[stream.capture].push_back(std::move(kept));
      return;
    }
    all.take_turn(stream);
    for (const OpenBuffer& open : all.open)
      if (const Verdict verdict = judge(*kept, open.buffer); verdict != Verdict::none)
        wrong.push_back({open, {verdict, kept->name, name_of(stream), here}});
    stream.pending.push_back({++stream.submitted, std::move(kept), here});
    if (stream.pending.size() > remembered) stream.pending.pop_front();
    if (stream.pending.back().work->host_waits) all.host_knows(all.clock_of(stream));
  }
  const NotTheProgram ours;
  for (const auto& [open, conflict] : wrong) open.report(open.opened_by, open.buffer, conflict);
}

void recorded(const void* event, const StreamKey& key) {
  report([&](State& all) {
    ProgramStream& stream = all.stream(key);
    if (!stream.capture) all.take_turn(stream);
    all.events[event] = {all.clock_of(stream), stream.capture};
  });
}

void event_ended(const void* event) {
  report([&](State& all) { all.events.erase(event); });
}

// A stream that waits for an event of a capture takes part in it.
void stream_waits(const StreamKey& key, const void* event) {
  report([&](State& all) {
    const auto found = all.events.find(event);
    if (found == all.events.end()) return;
    ProgramStream& stream = all.stream(key);
    // Of a capture that has ended, nothing is known.
    if (found->second.capture)
      stream.capture = all.captures.contains(found->second.capture) ? found->second.capture : stream.capture;
    else if (!stream.capture)
      merge(&stream.before, found->second.clock);
  });
}

void freed(const void* address, size_t bytes) {
  report([&](State& all) {
    const auto ended = [&](const Touched& touched) {
      return touched.address - reinterpret_cast<uintptr_t>(address) < bytes;
    };
    // The driver tells only where an allocation begins.
    std::vector<Watched> kept, ended_ones;
    if (all.watched)
      for (const Watched& one : *all.watched)
        (one.allocation - reinterpret_cast<uintptr_t>(address) < bytes ? ended_ones : kept).push_back(one);
    if (!ended_ones.empty()) all.watched = std::make_shared<const std::vector<Watched>>(std::move(kept));
    const auto accessed_one = [&](const Touched& touched) {
      return std::any_of(ended_ones.begin(), ended_ones.end(), [&](const Watched& one) {
        return overlap(touched.address, touched.bytes, one.begin, one.end - one.begin);
      });
    };
    for (auto& [number, stream] : all.streams)
      for (Pending& pending : stream.pending) {
        if (std::ranges::none_of(pending.work->touched, ended) &&
            std::ranges::none_of(pending.work->accessed, accessed_one))
          continue;
        Work rest = *pending.work;
        std::erase_if(rest.touched, ended);
        std::erase_if(rest.accessed, accessed_one);
        pending.work = std::make_shared<const Work>(std::move(rest));
      }
  });
}

void host_waited(const StreamKey& key) {
  report([&](State& all) {
    ProgramStream& stream = all.stream(key);
    if (stream.sort == StreamSort::of_context) all.take_turn(stream);
    all.host_knows(all.clock_of(stream));
  });
}

void host_waited_for_event(const void* event) {
  report([&](State& all) {
    const auto found = all.events.find(event);
    if (found != all.events.end() && !found->second.capture) all.host_knows(Clock(found->second.clock));
  });
}

void host_waited_for_context(const void* context) {
  report([&](State& all) {
    Clock clock;
    for (const auto& [number, stream] : all.streams)
      if (!context || !stream.context || stream.context == context) clock[number] = stream.submitted;
    all.host_knows(clock);
  });
}

void capture_began(const StreamKey& key) {
  report([&](State& all) {
    ProgramStream& stream = all.stream(key);  // which may take a number itself
    stream.capture = ++all.numbers;
    all.captures[stream.capture];
  });
}

void capture_ended(const StreamKey& key, const void* graph) {
  report([&](State& all) {
    const uint64_t capture = all.stream(key).capture;
    if (!capture) return;
    for (auto& [number, stream] : all.streams)
      if (stream.capture == capture) stream.capture = 0;
    if (graph) all.graphs[graph] = std::move(all.captures[capture]);
    all.captures.erase(capture);
  });
}

void graph_instantiated(const void* executable, const void* graph) {
  report([&](State& all) {
    const auto found = all.graphs.find(graph);
    if (found == all.graphs.end())
      all.graphs.erase(executable);
    else
      all.graphs[executable] = Captured(found->second);
  });
}

void graph_ended(const void* graph) {
  report([&](State& all) { all.graphs.erase(graph); });
}

void devices_reset() {
  report([&](State& all) {
    all.streams.clear();
    all.by_key.clear();
    all.events.clear();
    all.host.clear();
    all.captures.clear();
    all.watched = nullptr;
  });
}

void graph_launched(const void* executable, const StreamKey& key, Work recorded) {
  Work together = std::move(recorded);
  together.name = "a graph";
  together.tells_host = true;
  report([&](State& all) {
    const auto found = all.graphs.find(executable);
    if (found == all.graphs.end()) return;  // built node by node: nothing is known of it
    together.tells_host = false;
    for (const auto& work : found->second) {
      together.name = "a graph with " + work->name;
      for (const Touched& touched : work->touched) {
        together.touched.push_back(touched);
        if (touched.bytes > 0) together.accessed.push_back(touched);  // a kernel's have no length
      }
      together.tells_host |= work->tells_host;
    }
  });
  submitted(key, std::move(together));
}

Conflict conflict_of(const Buffer& buffer) {
  const NotTheProgram ours;
  Conflict worst;
  State& all = state();
  std::lock_guard lock(all.mutex);
  for (const auto& [number, stream] : all.streams)
    if (Conflict conflict = conflict_with(stream, buffer); conflict.verdict > worst.verdict)
      worst = std::move(conflict);
  all.watch(buffer);
  return worst;
}

void OpenBuffers::open(const Buffer& buffer, Report report) {
  State& all = state();
  const Frames here = frames_here();  // without the lock, as in submitted()
  std::lock_guard lock(all.mutex);
  all.open.push_back({this, buffer, here, report});
  any_ = true;
}

void OpenBuffers::close_all() {
  State& all = state();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.open, [this](const OpenBuffer& open) { return open.owner == this; });
  any_ = false;
}

}  // namespace fairlead::device::program
