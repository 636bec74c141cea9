// SPDX-License-Identifier: Apache-2.0
//
// Connects the MPI functions to src/observe: every interposed function begins with a CallRecord, and every
// operation on device memory keeps a MessageRecord. They do nothing unless something is recorded.

#pragma once

#include <type_traits>
#include <utility>

#include "mpi/abi/host_mpi.h"
#include "mpi/abi/real.h"
#include "observe/recorder.h"
#include "observe/statistics.h"
#include "observe/trace.h"

namespace fairlead::mpi {

using observe::recording;

// Begin and end flow events of messages without an RTS header, in the call that is being recorded. `from` is
// a rank in MPI_COMM_WORLD; negative if unknown.
void begin_flow(MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
void end_flow(int from, int tag, MPI_Count bytes);

// The MPI function that the program called last in this thread. Error messages name it.
extern constinit thread_local Function current_function;

// As long as it lives, error messages name a function that is not of the standard (MPIX_) instead.
extern constinit thread_local const char* current_extension;
class ExtensionCall {
 public:
  explicit ExtensionCall(const char* function) : before_(std::exchange(current_extension, function)) {}
  ~ExtensionCall() { current_extension = before_; }
  ExtensionCall(const ExtensionCall&) = delete;
  ExtensionCall& operator=(const ExtensionCall&) = delete;

 private:
  const char* before_;
};
inline const char* name_of_call() {
  return current_extension ? current_extension : to_string(current_function);
}

// Records a call of the program, for as long as it lives.
class CallRecord {
 public:
  explicit CallRecord(Function function) : recorded_(recording()) {
    current_function = function;
    if (recorded_) [[unlikely]]
      observe::begin_call(static_cast<int>(function));
  }
  ~CallRecord() {
    if (recorded_) [[unlikely]]
      observe::end_call();
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

 private:
  static void add(MPI_Count count, MPI_Datatype datatype);
  const bool recorded_;
};

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
