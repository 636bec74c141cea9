// SPDX-License-Identifier: Apache-2.0
//
// Events for FAIRLEAD_TRACE: MPI calls and phases of each thread, copies and kernels of each GPU stream, and
// the ends of the flow events from sends to receives. Memory is bounded: events beyond the limit are dropped
// and counted. Each thread writes to its own log without locks.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace fairlead::observe {

enum class EventKind : uint8_t {
  call,      // `what`: the function
  phase,     // `what`: the phase's name
  copy,      // on a stream; `what`: the stream number
  kernel,    // on a stream; `what`: the stream number
  enqueued,  // the same for a stream of the program's; `function`: of the operation
  sent,      // a flow event begins, in the call in progress at `begin`; `end`: its number
  received   // a flow event ends, in the call; or, if `what` > 0, in an operation on the stream `what` - 1
};

struct Event {
  EventKind kind;
  int what;
  uint64_t begin, end;
  uint64_t bytes;
  int function = 0;
};

namespace detail {
extern std::atomic<bool> tracing;  // changes like detail::recording
}
inline bool tracing() {
  return detail::tracing.load(std::memory_order_acquire);
}

// Keeps at most `limit` events of this process.
void open_trace(uint64_t limit, int world_rank);
void close_trace();
void trace(const Event& event);

// Numbers of streams. Fairlead detects the end of a copy with some delay, so that consecutive copies could
// appear to overlap; therefore each begins when the end of its predecessor was detected.
int number_of_stream(int device, int stream);
int device_of_stream(int number);
constexpr int streams_per_device = 64;
constexpr int kernel_stream = streams_per_device - 1;  // the stream that runs kernels
// The program's streams with MPI operations. Those beyond the last number share it.
constexpr int first_program_stream = 32;
int number_of_program_stream(int device, int stream);

// Flow events. If a message carries an RTS header, both ends have a unique number for it. For other messages
// the number is a hash of what both ends know, and identical messages share it: the n-th one sent is the n-th
// one received.
uint64_t next_flow();
uint64_t flow_of(int from, int to, int tag, uint64_t bytes);
bool is_exact(uint64_t flow_event);
void trace_sent(uint64_t flow_event);
void trace_received(uint64_t flow_event);

// As long as it lives, flow events that end in this thread end in the operation on this stream that the
// thread records next.
class FlowsEndOnStream {
 public:
  explicit FlowsEndOnStream(int stream);
  ~FlowsEndOnStream();
  FlowsEndOnStream(const FlowsEndOnStream&) = delete;
  FlowsEndOnStream& operator=(const FlowsEndOnStream&) = delete;
};

struct Log {
  int thread;
  std::vector<Event> events;
  void sort();
};
// Returns one log per thread, its events in the order of time; at equal times, outer calls precede inner
// ones. Also returns the number of dropped events.
std::vector<Log> traced(uint64_t* dropped);

}  // namespace fairlead::observe
