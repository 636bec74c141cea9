// SPDX-License-Identifier: Apache-2.0
//
// Hooks of src/observe in the MPI functions: every interposed function opens with a CallRecord, and every
// operation with device memory keeps a MessageRecord. They do nothing unless something is recorded.

#pragma once

#include <type_traits>

#include "base/statistics.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/abi/real.h"
#include "observe/recorder.h"
#include "observe/trace.h"

namespace fairlead::mpi {

using observe::recording;

// Ends of arrows of messages without a descriptor, in the call that is being recorded. `from`: in
// MPI_COMM_WORLD; negative where it is not known.
void begin_flow(MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm);
void end_flow(int from, int tag, MPI_Count bytes);

// The function that this thread's last call of the program called: errors name it.
extern constinit thread_local Function current_function;

// A call of the program, for as long as it lives.
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
  // The bytes of a buffer of the call.
  void add_bytes(MPI_Count count, MPI_Datatype datatype) const {
    if (recorded_) [[unlikely]]
      add(count, datatype);
  }
  // An arrow of the trace begins here: a message without a descriptor.
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

// A blocking receive: how much has come is known from its status, which the program may not want.
// `comm`: the message's, or MPI_COMM_NULL where that is not known.
template <class Receive>
int record_receive(const CallRecord& record, MPI_Comm comm, MPI_Status* status, Receive receive) {
  MPI_Status own;
  if (record.on() && status == MPI_STATUS_IGNORE) status = &own;
  int result = receive(status);
  if (record.on() && result == MPI_SUCCESS) record.add_received(*status, comm);
  return result;
}

// A device message, or a rank's part of a collective, from its start to its completion. It counts for the
// function in which it was started.
class MessageRecord {
 public:
  void begin() {
    if (recording()) [[unlikely]]
      start();
  }
  // Which way the bytes went, as far as known: the last word holds.
  void took(Traffic path, uint64_t bytes) {
    way_ = path;
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
  Traffic way_ = Traffic::rows;  // none: no device memory took part
};

}  // namespace fairlead::mpi
