// SPDX-License-Identifier: Apache-2.0
//
// A GPU stream of the program, as MPIX_Stream_create() names it to MPI, and what is enqueued on it:
// operations that begin when the stream has come to them, and that the stream may wait for. No call waits for
// the stream.
//
// The stream and the CPU talk by 32-bit words in page-locked host memory. The stream writes to one when it
// comes to an operation, and waits for another one, to which the CPU writes when the operation is complete.
// Messages start in the call that enqueues them, if their bytes may follow later: they are matched at once
// and leave their buffers alone until the stream has come to them. All else starts when the stream has come
// to it, in the order of the calls.
//
// In a stream that is being captured, an operation becomes part of the graph and starts anew in every launch
// of it.

#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/report_timer.h"
#include "device/runtime.h"
#include "flight/record.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/abi/mutex.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {

// What an enqueued operation does when its stream has come to it: starts it and stores its request, which
// stays MPI_REQUEST_NULL if it is already complete. Returns try_again if it would have to wait: it is called
// again, before what the stream comes to later.
using StartOperation = std::function<int(MPI_Request*)>;
constexpr int try_again = -2;
// The same in the call that enqueues it. Returns Operation::cannot_be_early if it can only start later.
using StartEarly = std::function<int(StreamGate, Operation**)>;

// What a call enqueues.
struct EnqueuedWork {
  StartOperation start;
  StartEarly start_early = nullptr;
  bool is_message = false;
  bool is_nothing = false;  // a message to or from MPI_PROC_NULL: the stream need not know
};

// The first error of the operations of a communicator, which its next call returns.
struct DeferredError {
  std::atomic<int> code = MPI_SUCCESS;
  std::atomic<int> outstanding = 0;  // operations that have not ended
  void note(int error) {
    int none = MPI_SUCCESS;
    if (error != MPI_SUCCESS) code.compare_exchange_strong(none, error);
  }
};

// One operation, and each of its starts if it was captured.
struct Enqueued {
  StartOperation start;
  StartEarly start_early;   // null if it never can
  bool is_message = false;  // its order among messages counts
  std::shared_ptr<DeferredError> errors;
  MPI_Status* status = MPI_STATUS_IGNORE;  // gets `result` when the operation ends
  MPI_Status result;
  uint32_t* reached = nullptr;  // the stream writes `number`, or, captured, 1
  uint32_t number = 0;
  // The CPU writes `round`, or, captured, 1, which the stream clears in each launch. Null: the graph has
  // ended.
  uint32_t* done = nullptr;
  uint32_t round = 0;
  uint64_t capture = 0;             // that it is part of
  bool waited_for_outside = false;  // of the graph, which may end before that wait
  bool under_way = false, ended = false;
  Operation* early = nullptr;  // what start_early() has started
  Function function{};         // what has started it, for the trace
  uint64_t bytes = 0;
  uint64_t came = 0;           // when the stream was seen to have come to it
  flight::Call call{};         // for the flight recorder
  const void* site = nullptr;  // in the program
  MPI_Request request = MPI_REQUEST_NULL;
};

class GpuStream : public std::enable_shared_from_this<GpuStream> {
 public:
  // `native`: a cudaStream_t or hipStream_t. Null, and an explanation, if its device cannot wait for words.
  static std::unique_ptr<GpuStream> make(void* native, std::string* why_not);
  ~GpuStream();

  bool is_captured() const;
  using Operations = std::vector<std::shared_ptr<Enqueued>>;
  enum class Waits { never, in_graphs, always };
  // Enqueues operations in one step, in their order, and makes the stream wait for all of them. If `waits`
  // says that it does not, the caller calls wait() later. After an error of the driver none of them starts.
  // `mpi_error`: of the first start that failed; that operation has ended, and those behind it do not
  // start.
  device::Error enqueue(const Operations& operations, Waits waits, int* mpi_error);
  device::Error wait(const Operations& operations);
  // Submits work that is no operation of the CPU, in the order of the calls that enqueue.
  device::Error submit(const std::function<device::Error(device::Stream, bool captured)>& work);
  // Words that the stream handles without the CPU; it may wait for peers there. `ended` gets a function that
  // tells whether the stream has passed them, which any thread may call; none if they are in a graph.
  device::Error run_alone(std::vector<device::WordAccess> accesses, std::function<bool()>* ended);
  // May it still wait there? Graphs are not counted.
  bool may_wait_alone();
  // Stores the status in the program's variable as soon as there is one.
  void store_status(Enqueued& operation, MPI_Status* status);

  // Starts what the stream has come to, and ends what is complete. One thread at a time. Returns whether
  // anything has happened.
  bool advance();
  // Lets the stream pass all waits for operations that have not ended, and forgets them, as MPI is over or no
  // communicator is left. `idle`: all operations have ended, and all streams have passed them, so their words
  // are used again.
  void abandon(bool idle);
  // Do graphs with operations exist? Nobody knows whether one was launched.
  bool is_in_graphs();
  // Has the stream done all that was enqueued? Nobody knows while it is being captured.
  bool is_idle() const;
  int device() const { return device_; }
  device::Stream stream() const { return stream_; }
  // One in which graphs for it are recorded; null: there is none.
  device::Stream recording() const { return recording_; }

 private:
  struct Sequence {
    uint64_t capture;
    std::vector<std::shared_ptr<Enqueued>> operations;
    size_t next = 0;
    std::shared_ptr<std::atomic<bool>> graph_ended;  // null if the driver does not tell
  };
  GpuStream() = default;
  bool take_words(const Operations& operations, uint64_t capture);
  void keep_in_graph(const Operations& operations, uint64_t capture);
  void skip(const Operations& operations);
  int begin(const std::shared_ptr<Enqueued>& operation);
  void end_without_start(Enqueued& operation);
  std::vector<device::WordAccess> waits_for(const Operations& operations);
  bool may_start_early();
  void exclude_blocking_calls(bool captured);
  void allow_blocking_calls(bool at_end);
  static bool is_over(const Sequence& sequence);
  void forget(size_t sequence);
  std::shared_ptr<Enqueued> next_reached();
  void end(Enqueued& operation, int error);
  void note_first() const;
  void report_stall(int seconds);

  device::Stream stream_ = nullptr, recording_ = nullptr;
  int device_ = -1;
  int number_ = 0;  // in the trace
  int made_ = 0;    // so many before it
  uint32_t* reached_ = nullptr;
  // Held in calls that enqueue, also while the driver makes them wait because its queue is full. Whoever
  // makes progress does not need it.
  Mutex enqueuing_;
  uint32_t enqueued_ = 0;  // what the stream has written to `reached_` last when it has come to its end
  Mutex mutex_;            // guards all that follows
  // The stream may wait for peers, which may wait for this process, until it writes this number; or whenever
  // a graph is launched.
  std::optional<uint32_t> waits_until_;
  bool waits_in_graphs_ = false;
  std::deque<std::shared_ptr<Enqueued>> waiting_;  // in the order of their calls
  int messages_waiting_ = 0;                       // in `waiting_`, or being started
  std::vector<Sequence> sequences_;
  std::shared_ptr<Enqueued> postponed_;  // its start has returned try_again
  std::vector<std::shared_ptr<Enqueued>> under_way_;
  ReportTimer stalled_;  // since something happened, or nothing was under way
};

}  // namespace fairlead::mpi
