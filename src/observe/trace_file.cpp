// SPDX-License-Identifier: Apache-2.0

#include "observe/trace_file.h"

#include <algorithm>
#include <map>
#include <set>

#include "observe/phases.h"
#include "observe/report.h"
#include "observe/text.h"

namespace fairlead::observe {
namespace {

constexpr int first_stream_track = 1000;

bool is_slice(const Event& event) {
  return event.kind < EventKind::sent;
}
bool on_stream(const Event& event) {
  return event.kind == EventKind::copy || event.kind == EventKind::kernel;
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

void append_name(std::string* text, const char* what, int rank, int track, const std::string& name) {
  append(text, "{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": ", what,
         rank, track);
  *text += json_string(name) + "}},\n";
}

// Viewers display lower numbers further up.
std::string place_of(const char* what, int rank, int track, int number) {
  std::string text;
  append(&text, "{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"args\": {\"sort_index\": %d}}",
         what, rank, track, number);
  return text;
}

void append_track(std::string* text, int rank, int track, const std::string& name) {
  append_name(text, "thread_name", rank, track, name);
  *text += place_of("thread_sort_index", rank, track, track) + ",\n";
}

}  // namespace

std::string head_of_trace() {
  return "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n";
}

std::string detail::names_of_tracks(const TraceOfRank& rank, const std::vector<Log>& logs) {
  std::string text;
  append_name(&text, "process_name", rank.rank, 0, "rank " + std::to_string(rank.rank) + " on " + rank.host);
  text += place_of("process_sort_index", rank.rank, 0, rank.rank) + ",\n";
  std::set<int> streams;
  for (const Log& log : logs) {
    append_track(&text, rank.rank, log.thread + 1,
                 log.thread == 0 ? "MPI" : "MPI, thread " + std::to_string(log.thread));
    for (const Event& event : log.events)
      if (on_stream(event)) streams.insert(event.what);
  }
  for (int stream : streams) {
    int number = stream % streams_per_device;
    append_track(&text, rank.rank, first_stream_track + stream,
                 "GPU " + std::to_string(device_of_stream(stream)) +
                     (number == kernel_stream ? ", kernels" : ", stream " + std::to_string(number)));
  }
  return text;
}

void detail::append_event(std::string* text, const TraceOfRank& rank, int thread, const Event& event,
                          NameOf name_of) {
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
    name = event.kind == EventKind::copy ? "copy" : "kernel";
    track = first_stream_track + event.what;
  }
  int64_t begin = time_in(rank, event.begin), end = time_in(rank, event.end);
  append(text,
         "{\"ph\": \"X\", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, \"ts\": %s, \"dur\": %s, \"name\": ",
         category, rank.rank, track, microseconds(begin).c_str(),
         microseconds(std::max<int64_t>(end - begin, 0)).c_str());
  *text += json_string(name);
  if (event.bytes > 0)
    append(text, ", \"args\": {\"bytes\": %llu}", static_cast<unsigned long long>(event.bytes));
  *text += "},\n";
}

std::vector<FlowEnd> flow_ends(const TraceOfRank& rank, const std::vector<Log>& logs) {
  std::vector<FlowEnd> ends;
  for (const Log& log : logs)
    for (const Event& event : log.events)
      if (!is_slice(event))
        ends.push_back(
            {event.end, time_in(rank, event.begin), rank.rank, log.thread, event.kind == EventKind::sent});
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
      for (const FlowEnd& end : {ends[first + i], ends[received + i]})
        append(&flows.lines,
               "{\"ph\": \"%s\", \"cat\": \"message\", \"name\": \"message\", \"id\": %llu, \"pid\": %d, "
               "\"tid\": %d, \"ts\": %s},\n",
               end.begins ? "s" : "f\", \"bp\": \"e", static_cast<unsigned long long>(flows.drawn), end.rank,
               end.thread + 1, microseconds(end.time).c_str());
    }
  }
  return flows;
}

// Every element ends with a comma except the last. JSON requires that last element, so it repeats the sort
// index of rank 0.
std::string tail_of_trace(int ranks, uint64_t dropped, const Flows& flows) {
  std::string text = place_of("process_sort_index", 0, 0, 0);
  append(&text,
         "\n], \"otherData\": {\"ranks\": %d, \"dropped_events\": %llu, \"flow_events\": %llu, "
         "\"flow_ends_left_out\": %llu}}\n",
         ranks, static_cast<unsigned long long>(dropped), static_cast<unsigned long long>(flows.drawn),
         static_cast<unsigned long long>(flows.left_out));
  return text;
}

}  // namespace fairlead::observe
