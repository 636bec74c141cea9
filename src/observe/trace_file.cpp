// SPDX-License-Identifier: Apache-2.0

#include "observe/trace_file.h"

#include <algorithm>
#include <map>
#include <vector>

#include "observe/json/json.h"
#include "observe/json/text.h"
#include "observe/phases.h"

namespace fairlead::observe {
namespace {

constexpr int first_stream_track = 1000, tracks_of_stream = 1000;

bool is_slice(const Event& event) {
  return event.kind < EventKind::sent;
}
bool on_stream(const Event& event) {
  return event.kind == EventKind::copy || event.kind == EventKind::kernel ||
         event.kind == EventKind::enqueued;
}

int64_t time_in(const TraceOfRank& rank, uint64_t time) {
  return static_cast<int64_t>(rank.clock.translate(time) - rank.start);
}

// Microseconds, exact to the nanosecond.
std::string microseconds(int64_t nanoseconds) {
  std::string text;
  int64_t size = nanoseconds < 0 ? -nanoseconds : nanoseconds;
  append(&text, "%s%lld.%03lld", nanoseconds < 0 ? "-" : "", static_cast<long long>(size / 1000),
         static_cast<long long>(size % 1000));
  return text;
}

std::string metadata(const char* what, int rank, int track, const JsonObject& arguments) {
  return JsonObject()
      .add("ph", "M")
      .add("name", what)
      .add("pid", rank)
      .add("tid", track)
      .add_json("args", arguments.text())
      .text();
}

void append_name(std::string* text, const char* what, int rank, int track, const std::string& name) {
  *text += metadata(what, rank, track, JsonObject().add("name", name)) + ",\n";
}

// Viewers display lower numbers further up.
std::string place_of(const char* what, int rank, int track, int number) {
  return metadata(what, rank, track, JsonObject().add("sort_index", number));
}

void append_track(std::string* text, int rank, int track, const std::string& name) {
  append_name(text, "thread_name", rank, track, name);
  *text += place_of("thread_sort_index", rank, track, track) + ",\n";
}

std::string name_of_stream(int number) {
  if (number == kernel_stream) return ", kernels";
  if (number >= first_program_stream)
    return ", program's stream " + std::to_string(number - first_program_stream);
  return ", stream " + std::to_string(number);
}

int number_of_track(int stream, int track) {
  return first_stream_track + stream * tracks_of_stream + track;
}

// The enqueued operations that a thread has recorded, for each stream.
class OperationsByEnd {
 public:
  explicit OperationsByEnd(const Log& log) {
    for (const Event& event : log.events)
      if (event.kind == EventKind::enqueued) of_streams_[event.what].push_back(&event);
    for (auto& [stream, operations] : of_streams_) std::ranges::sort(operations, {}, &Event::end);
  }
  // The first that ends at this time or later.
  const Event* next(int stream, uint64_t time) const {
    const auto found = of_streams_.find(stream);
    if (found == of_streams_.end()) return nullptr;
    const auto operation = std::ranges::lower_bound(found->second, time, {}, &Event::end);
    return operation == found->second.end() ? nullptr : *operation;
  }

 private:
  std::map<int, std::vector<const Event*>> of_streams_;
};

}  // namespace

detail::Tracks::Tracks(const std::vector<Log>& logs) {
  std::vector<const Event*> enqueued;
  for (const Log& log : logs)
    for (const Event& event : log.events) {
      if (!on_stream(event)) continue;
      of_streams_[event.what] = 1;
      if (event.kind == EventKind::enqueued) enqueued.push_back(&event);
    }
  std::ranges::sort(enqueued, {}, &Event::begin);
  std::map<int, std::vector<uint64_t>> ends;  // of the last bar of each track, by stream
  for (const Event* event : enqueued) {
    std::vector<uint64_t>& tracks = ends[event->what];
    auto track = std::ranges::find_if(tracks, [&](uint64_t end) { return end <= event->begin; });
    if (track == tracks.end() && tracks.size() < tracks_of_stream) track = tracks.insert(track, 0);
    if (track == tracks.end()) track = std::ranges::min_element(tracks);
    *track = event->end;
    if (track != tracks.begin()) further_[event] = static_cast<int>(track - tracks.begin());
    of_streams_[event->what] = static_cast<int>(tracks.size());
  }
}

int detail::Tracks::of(const Event& event) const {
  const auto found = further_.find(&event);
  return found == further_.end() ? 0 : found->second;
}

std::string head_of_trace() {
  return "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
}

std::string detail::names_of_tracks(const TraceOfRank& rank, const std::vector<Log>& logs,
                                    const Tracks& tracks) {
  std::string text;
  append_name(&text, "process_name", rank.rank, 0, "rank " + std::to_string(rank.rank) + " on " + rank.host);
  text += place_of("process_sort_index", rank.rank, 0, rank.rank) + ",\n";
  for (const Log& log : logs)
    append_track(&text, rank.rank, log.thread + 1,
                 log.thread == 0 ? "MPI" : "MPI, thread " + std::to_string(log.thread));
  for (const auto& [stream, count] : tracks.of_streams())
    for (int track = 0; track < count; ++track)
      append_track(&text, rank.rank, number_of_track(stream, track),
                   "GPU " + std::to_string(device_of_stream(stream)) +
                       name_of_stream(stream % streams_per_device) +
                       (track ? " (" + std::to_string(track + 1) + ")" : ""));
  return text;
}

void detail::append_event(std::string* text, const TraceOfRank& rank, int thread, const Event& event,
                          const Tracks& tracks, NameOf name_of) {
  if (!is_slice(event)) return;
  const char* category = "mpi";
  std::string name;
  int track = thread + 1;
  if (event.kind == EventKind::call) {
    name = name_of(event.what);
  } else if (event.kind == EventKind::phase) {
    category = "phase";
    name = name_of_phase(event.what);
  } else {
    category = "gpu";
    name = event.kind == EventKind::copy     ? "copy"
           : event.kind == EventKind::kernel ? "kernel"
                                             : name_of(event.function);
    track = number_of_track(event.what, tracks.of(event));
  }
  int64_t begin = time_in(rank, event.begin), end = time_in(rank, event.end);
  JsonObject slice;
  slice.add("ph", "X").add("cat", category).add("pid", rank.rank).add("tid", track);
  slice.add_json("ts", microseconds(begin)).add_json("dur", microseconds(std::max<int64_t>(end - begin, 0)));
  slice.add("name", name);
  if (event.bytes > 0) slice.add_json("args", JsonObject().add("bytes", event.bytes).text());
  *text += slice.text() + ",\n";
}

std::vector<FlowEnd> flow_ends(const TraceOfRank& rank, const std::vector<Log>& logs) {
  std::vector<FlowEnd> ends;
  const detail::Tracks tracks(logs);
  for (const Log& log : logs) {
    const OperationsByEnd operations(log);
    for (const Event& event : log.events) {
      if (is_slice(event)) continue;
      int track = log.thread + 1;
      if (event.what > 0)
        if (const Event* operation = operations.next(event.what - 1, event.begin))
          track = number_of_track(operation->what, tracks.of(*operation));
      ends.push_back(
          {event.end, time_in(rank, event.begin), rank.rank, track, event.kind == EventKind::sent});
    }
  }
  return ends;
}

Flows draw_flows(std::vector<FlowEnd> ends) {
  std::stable_sort(ends.begin(), ends.end(), [](const FlowEnd& a, const FlowEnd& b) {
    return a.flow_event != b.flow_event ? a.flow_event < b.flow_event
           : a.begins != b.begins       ? a.begins > b.begins
                                        : a.time < b.time;
  });
  Flows flows;
  for (size_t first = 0, behind = 0; first < ends.size(); first = behind) {
    size_t received = first;
    while (received < ends.size() && ends[received].flow_event == ends[first].flow_event &&
           ends[received].begins)
      ++received;
    for (behind = received; behind < ends.size() && ends[behind].flow_event == ends[first].flow_event;)
      ++behind;
    size_t alike = received - first;
    if (behind - received != alike) {
      flows.left_out += behind - first;
      continue;
    }
    for (size_t i = 0; i < alike; ++i) {
      ++flows.drawn;
      for (const FlowEnd& end : {ends[first + i], ends[received + i]}) {
        JsonObject event;
        event.add("ph", end.begins ? "s" : "f");
        if (!end.begins) event.add("bp", "e");
        event.add("cat", "message").add("name", "message").add("id", flows.drawn);
        event.add("pid", end.rank).add("tid", end.track).add_json("ts", microseconds(end.time));
        flows.lines += event.text() + ",\n";
      }
    }
  }
  return flows;
}

// Every element ends with a comma except the last. JSON requires that last element, so it repeats the sort
// index of rank 0.
std::string tail_of_trace(int ranks, uint64_t dropped, const Flows& flows, const Provenance& provenance,
                          const std::optional<std::vector<int>>& missing) {
  JsonObject other;
  other.add("ranks", ranks)
      .add("dropped_events", dropped)
      .add("flow_events", flows.drawn)
      .add("flow_ends_left_out", flows.left_out);
  if (missing) other.add_json("missing_ranks", json_array(*missing));
  return place_of("process_sort_index", 0, 0, 0) + "\n], \"otherData\": " + other.text() + ", " +
         json_string(provenance_key) + ": " + as_json(provenance) + "}\n";
}

}  // namespace fairlead::observe
