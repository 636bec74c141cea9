// SPDX-License-Identifier: Apache-2.0
//
// Writes the trace in the Chrome trace-event format, which Perfetto (ui.perfetto.dev) and chrome://tracing
// read: one process per rank, one track per thread and GPU stream, and flow events between them. Times are
// microseconds since MPI_Init of rank 0, by its clock.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "observe/clock.h"
#include "observe/json/provenance.h"
#include "observe/recorder.h"
#include "observe/trace.h"

namespace fairlead::observe {

// One end of a flow event, with the data of its line.
struct FlowEnd {
  uint64_t flow_event;
  int64_t time;  // by the common clock
  int32_t rank, track;
  int32_t begins;  // 1: a send, 0: a receive
};

struct TraceOfRank {
  int rank;
  std::string host;
  ClockFit clock;
  uint64_t start;  // start of the trace, by the common clock
};

std::string head_of_trace();
// Writes the events of this rank except flow events, in pieces of moderate length, none of them empty.
template <class Write>
void write_events(const TraceOfRank& rank, const std::vector<Log>& logs, NameOf name_of, Write write);
std::vector<FlowEnd> flow_ends(const TraceOfRank& rank, const std::vector<Log>& logs);

// The lines of flow events whose two ends are known. If one end among identical messages is missing, it is
// unknown which one, so none of them is drawn.
struct Flows {
  std::string lines;
  uint64_t drawn = 0, left_out = 0;  // left_out counts ends
};
Flows draw_flows(std::vector<FlowEnd> ends);
// `missing`: ranks of which nothing is known, if the job has ended early.
std::string tail_of_trace(int ranks, uint64_t dropped, const Flows& flows, const Provenance& provenance,
                          const std::optional<std::vector<int>>& missing = {});

// ---- Implementation ----------------------------------------------------------------------------------

namespace detail {

// A stream of the program's may come to several operations before the first has ended, but viewers drop a bar
// that overlaps another one of its track without lying inside. So such a stream has several tracks, as many
// as operations were there at a time.
class Tracks {
 public:
  explicit Tracks(const std::vector<Log>& logs);
  // By stream number: how many.
  const std::map<int, int>& of_streams() const { return of_streams_; }
  int of(const Event& event) const;  // of its stream, from 0

 private:
  std::map<int, int> of_streams_;
  std::map<const Event*, int> further_;  // those that are not on the first one
};

std::string names_of_tracks(const TraceOfRank& rank, const std::vector<Log>& logs, const Tracks& tracks);
void append_event(std::string* text, const TraceOfRank& rank, int thread, const Event& event,
                  const Tracks& tracks, NameOf name_of);

}  // namespace detail

template <class Write>
void write_events(const TraceOfRank& rank, const std::vector<Log>& logs, NameOf name_of, Write write) {
  constexpr size_t piece = 1 << 20;
  const detail::Tracks tracks(logs);
  std::string text = detail::names_of_tracks(rank, logs, tracks);
  for (const Log& log : logs) {
    for (const Event& event : log.events) {
      detail::append_event(&text, rank, log.thread, event, tracks, name_of);
      if (text.size() < piece) continue;
      write(text);
      text.clear();
    }
  }
  if (!text.empty()) write(text);
}

}  // namespace fairlead::observe
