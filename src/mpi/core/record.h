// SPDX-License-Identifier: Apache-2.0
//
// Connects the MPI functions to src/flight and src/observe: every interposed function begins with a
// CallRecord, and every operation on device memory keeps a MessageRecord. What src/observe gets is recorded
// only on request.

#pragma once

#include <type_traits>
#include <utility>

#include "device/program/not_the_program.h"
#include "flight/record.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/abi/real.h"
#include "observe/recorder.h"
#include "observe/statistics.h"
#include "observe/trace.h"

namespace fairlead::mpi {

using CallKind = flight::Kind;
using observe::recording;

// Begin and end flow events of messages without an RTS header, in the call that is being recorded. `from` is
// a rank in MPI_COMM_WORLD; negative if unknown.
void begin_flow(MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
void end_flow(int from, int tag, MPI_Count bytes);

// The MPI function that the program called last in this thread. Error messages name it.
extern constinit thread_local Function current_function;

// As long as it lives, calls of MPI by the library itself are recorded as made at this place in the program.
extern constinit thread_local const void* current_site;
class ActsFor {
 public:
  explicit ActsFor(const void* site) : before_(std::exchange(current_site, site)) {}
  ~ActsFor() { current_site = before_; }
  ActsFor(const ActsFor&) = delete;
  ActsFor& operator=(const ActsFor&) = delete;

 private:
  const void* before_;
};

// As long as it lives, error messages name a function that is not of the standard (MPIX_) instead. It is
// made in that function.
extern constinit thread_local const char* current_extension;
class ExtensionCall {
 public:
  [[gnu::always_inline]] explicit ExtensionCall(const char* function)
      : program_(__builtin_return_address(0)), before_(std::exchange(current_extension, function)) {}
  ~ExtensionCall() { current_extension = before_; }
  ExtensionCall(const ExtensionCall&) = delete;
  ExtensionCall& operator=(const ExtensionCall&) = delete;

 private:
  const ActsFor program_;
  const char* before_;
};
inline const char* name_of_call() {
  return current_extension ? current_extension : to_string(current_function);
}

// What the flight recorder tells of a call. A blocking collective says which communicator, and so on.
struct CallArguments {
  flight::Kind kind = flight::Kind::local;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Count count = 0;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
  int to = flight::absent, sendtag = 0;  // `to`: also the root of a collective
  int from = flight::absent, recvtag = 0;
  MPI_Op op = MPI_OP_NULL;
  MPI_Request* started = nullptr;         // by this call
  const MPI_Request* requests = nullptr;  // for which it waits
  int requested = 1;
};
inline CallArguments a_send(MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                            MPI_Request* started = nullptr) {
  return {.kind = flight::Kind::message,
          .comm = comm,
          .count = count,
          .datatype = datatype,
          .to = dest,
          .sendtag = tag,
          .started = started};
}
inline CallArguments a_receive(MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                               MPI_Request* started = nullptr) {
  return {.kind = flight::Kind::message,
          .comm = comm,
          .count = count,
          .datatype = datatype,
          .from = source,
          .recvtag = tag,
          .started = started};
}
inline CallArguments an_exchange(MPI_Count count, MPI_Datatype datatype, int dest, int sendtag, int source,
                                 int recvtag, MPI_Comm comm, MPI_Request* started = nullptr) {
  return {.kind = flight::Kind::message,
          .comm = comm,
          .count = count,
          .datatype = datatype,
          .to = dest,
          .sendtag = sendtag,
          .from = source,
          .recvtag = recvtag,
          .started = started};
}
inline CallArguments a_probe(flight::Kind kind, int source, int tag, MPI_Comm comm) {
  return {.kind = kind, .comm = comm, .from = source, .recvtag = tag};
}
inline CallArguments a_completion(flight::Kind kind, const MPI_Request* requests, int count = 1) {
  return {.kind = kind, .requests = requests, .requested = count};
}
// Of all members.
inline CallArguments together(MPI_Comm comm) {
  return {.kind = flight::Kind::collective, .comm = comm};
}

// Records a call of the program, for as long as it lives. Its constructor is inlined, as are the functions
// that have one, so that the return address is in the program.
class CallRecord {
 public:
  [[gnu::always_inline]] explicit CallRecord(Function function, const CallArguments& arguments = {})
      : recorded_(recording()), started_(arguments.started) {
    current_function = function;
    if ((thread_ = flight::own_thread())) [[likely]]
      begin(function, arguments, __builtin_return_address(0));
    if (recorded_) [[unlikely]]
      observe::begin_call(
          static_cast<int>(function),
          reinterpret_cast<uintptr_t>(current_site ? current_site : __builtin_return_address(0)));
  }
  ~CallRecord() {
    if (recorded_) [[unlikely]]
      observe::end_call();
    if (!thread_) return;
    if (started_) remember_request();
    thread_->open.store(before_, std::memory_order_relaxed);
  }
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

  bool on() const { return recorded_; }
  // Adds the bytes of a buffer of the call.
  void add_bytes(MPI_Count count, MPI_Datatype datatype) const {
    if (recorded_) [[unlikely]]
      add(count, datatype);
  }
  // Begins a flow event of the trace, for a message without an RTS header.
  void trace_sent(MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) const {
    if (recorded_) [[unlikely]]
      begin_flow(count, datatype, dest, tag, comm);
  }
  void add_received(const MPI_Status& status, MPI_Comm comm) const;
  // The buffer is in device memory.
  void note_device() const {
    if (call_) flight::put<uint8_t>(call_->device, 1);
  }

 private:
  static void add(MPI_Count count, MPI_Datatype datatype);
  void begin(Function function, const CallArguments& arguments, const void* site);
  void remember_request() const;

  const device::program::NotTheProgram calls_of_mpi_;
  const bool recorded_;
  MPI_Request* const started_;
  flight::Thread* thread_;
  flight::Call* call_ = nullptr;
  uint64_t before_ = 0;  // what was open: an error handler of the program may call MPI
};

// The collectives that are enqueued on a communicator with a GPU stream, for the flight recorder. Calls on it
// have been recorded before.
class EnqueuedRecord {
 public:
  explicit EnqueuedRecord(MPI_Comm comm);
  ~EnqueuedRecord();
  EnqueuedRecord(const EnqueuedRecord&) = delete;
  EnqueuedRecord& operator=(const EnqueuedRecord&) = delete;
  // The program has enqueued one. `in_stream`: no stream passes it before all members have enqueued it.
  // `captured`: this one or an earlier one is in a graph.
  void add(Function function, const CallArguments& arguments, bool in_stream, bool captured) const;

 private:
  flight::Enqueued* record_ = nullptr;  // null: no place is left
};

// A communicator or a datatype is freed: another one may get its handle.
void forget_recorded_comm(MPI_Comm comm);
void forget_recorded_type(MPI_Datatype datatype);

template <class Handle>
uint64_t bits_of(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>)
    return reinterpret_cast<uintptr_t>(handle);
  else
    return static_cast<uint32_t>(handle);
}

// &Real::Send is the slot of Function::Send.
template <auto slot>
constexpr Function function_of = std::remove_reference_t<decltype(real.*slot)>::id;

// Runs a blocking receive. The number of bytes received is in the status, which the program may not want.
// `comm` is the communicator of the message, or MPI_COMM_NULL if unknown.
template <class Receive>
int record_receive(const CallRecord& record, MPI_Comm comm, MPI_Status* status, Receive receive) {
  MPI_Status own;
  if (record.on() && status == MPI_STATUS_IGNORE) status = &own;
  int result = receive(status);
  if (record.on() && result == MPI_SUCCESS) record.add_received(*status, comm);
  return result;
}

// Records a device message, or this rank's part of a collective, from start to completion. It counts for the
// function that started it.
class MessageRecord {
 public:
  void begin() {
    if (recording()) [[unlikely]]
      start();
  }
  // Stores the path that the bytes took, as far as known. The last call holds.
  void set_path(Traffic path, uint64_t bytes) {
    path_ = path;
    bytes_ = bytes;
  }
  void end() {
    if (function_ >= 0) [[unlikely]]
      finish();
  }

 private:
  void start();
  void finish();
  int function_ = -1;
  uint64_t since_ = 0, bytes_ = 0;
  Traffic path_ = Traffic::rows;  // rows: no device memory took part
};

}  // namespace fairlead::mpi
