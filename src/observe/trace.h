// SPDX-License-Identifier: Apache-2.0
//
// What happened when, for FAIRLEAD_TRACE: MPI calls and phases of each thread, copies and kernels of each GPU
// stream, and the ends of the arrows from sends to receives. Memory is bounded: beyond the limit events are
// dropped and counted. Each thread writes to a log of its own, without locks.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fairlead::observe {

enum class EventKind : uint8_t {
  call,     // `what`: the function
  phase,    // `what`: the phase's name
  copy,     // on a stream; `what`: its number
  kernel,   // the same
  sent,     // an arrow begins, in the call that lasts at `begin`; `end`: which arrow
  received  // an arrow ends
};

struct Event {
  EventKind kind;
  int what;
  uint64_t begin, end;
  uint64_t bytes;
};

namespace detail {
extern std::atomic<bool> tracing;  // as detail::recording
}
inline bool tracing() {
  return detail::tracing.load(std::memory_order_relaxed);
}

// At most so many events of this process are kept.
void open_trace(uint64_t limit, int world_rank);
void close_trace();
void trace(const Event& event);

// Streams of our own. Copies are seen to be over some time after they are, so that those that run behind each
// other may seem to overlap: each begins when the one before it was over.
int number_of_stream(int device, int stream);
int device_of_stream(int number);
constexpr int streams_per_device = 64;
constexpr int kernel_stream = streams_per_device - 1;  // the one that kernels run on

// Arrows. Of a message that carries a descriptor both ends know a number; that of any other is found from
// what both know, and means all messages that are alike: the n-th that is sent is the n-th that is received.
uint64_t next_flow();
uint64_t flow_of(int from, int to, int tag, uint64_t bytes);
bool is_exact(uint64_t flow_event);
void trace_sent(uint64_t flow_event);
void trace_received(uint64_t flow_event);

struct Log {
  int thread;
  std::vector<Event> events;
};
// What all threads wrote, in the order of time where one thing happens after the other, outer calls before
// inner ones; and how many events were dropped.
std::vector<Log> traced(uint64_t* dropped);

}  // namespace fairlead::observe
