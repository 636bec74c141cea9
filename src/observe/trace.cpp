// SPDX-License-Identifier: Apache-2.0

#include "observe/trace.h"

#include <algorithm>
#include <atomic>

#include "observe/part.h"
#include "observe/per_thread.h"
#include "observe/recorder.h"

namespace fairlead::observe {

std::atomic<bool> detail::tracing = false;

namespace {

constexpr uint64_t exact = uint64_t{1} << 63;

std::atomic<int64_t> events_left{0};
constinit thread_local int flows_end_on = 0;  // a stream's number + 1; 0: they end in calls
uint64_t rank = 0;

// Pieces never move in memory, so that the cost of writing is constant.
struct Writer {
  std::vector<KeptEvents*> pieces;

  void write(const Event& event) {
    if (pieces.empty() || pieces.back()->used.load(std::memory_order_relaxed) >= events_per_piece) {
      if (events_left.fetch_sub(events_per_piece, std::memory_order_relaxed) <= 0) {
        events_left.fetch_add(events_per_piece, std::memory_order_relaxed);
        own_part().dropped.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      pieces.push_back(keep<KeptEvents>(Kept::events));
      pieces.back()->thread = number_of_thread();
    }
    KeptEvents& piece = *pieces.back();
    const uint32_t used =
        std::min<uint32_t>(piece.used.load(std::memory_order_relaxed), events_per_piece - 1);
    piece.events[used] = event;
    piece.used.store(used + 1, std::memory_order_release);
  }
};

uint64_t mixed(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15;
  return hash ^ (hash >> 29);
}

}  // namespace

void open_trace(uint64_t limit, int world_rank) {
  rank = static_cast<uint64_t>(world_rank);
  events_left = static_cast<int64_t>(limit);
  detail::tracing = true;
}

void close_trace() {
  detail::tracing = false;
}

void trace(const Event& event) {
  PerThread<Writer>::mine().write(event);
}

int number_of_stream(int device, int stream) {
  return device * streams_per_device + stream;
}

int number_of_program_stream(int device, int stream) {
  return number_of_stream(device, std::min(first_program_stream + stream, kernel_stream - 1));
}

int device_of_stream(int number) {
  return number / streams_per_device;
}

uint64_t next_flow() {
  static std::atomic<uint64_t> last{0};
  if (!tracing()) return 0;
  return exact | rank << 40 | ++last;
}

uint64_t flow_of(int from, int to, int tag, uint64_t bytes) {
  uint64_t hash = mixed(mixed(1, static_cast<uint32_t>(from)), static_cast<uint32_t>(to));
  return mixed(mixed(hash, static_cast<uint32_t>(tag)), bytes) & ~exact;
}

bool is_exact(uint64_t flow_event) {
  return flow_event & exact;
}

void trace_sent(uint64_t flow_event) {
  if (flow_event && tracing()) trace({EventKind::sent, 0, now(), flow_event, 0});
}

void trace_received(uint64_t flow_event) {
  if (!flow_event || !tracing()) return;
  uint64_t time = now();
  if (OpenCall* call = current_call()) call->received = true;
  trace({EventKind::received, flows_end_on, time, flow_event, 0});
}

FlowsEndOnStream::FlowsEndOnStream(int stream) {
  flows_end_on = stream + 1;
}

FlowsEndOnStream::~FlowsEndOnStream() {
  flows_end_on = 0;
}

void Log::sort() {
  // A flow event is not a slice: its `end` is not a time.
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return a.begin != b.begin ? a.begin < b.begin
                              : a.kind < EventKind::sent && (b.kind >= EventKind::sent || a.end > b.end);
  });
}

std::vector<Log> traced(uint64_t* dropped) {
  std::vector<Log> logs;
  *dropped = own_part().dropped;
  PerThread<Writer>::visit_all([&](const Writer& writer, int thread) {
    Log log{thread, {}};
    for (const auto& piece : writer.pieces)
      log.events.insert(log.events.end(), piece->events, piece->events + piece->used);
    log.sort();
    logs.push_back(std::move(log));
  });
  return logs;
}

}  // namespace fairlead::observe
