// SPDX-License-Identifier: Apache-2.0
//
// MPI_Send, MPI_Isend and their other modes. Host buffers go to the host MPI untouched; a device buffer
// becomes a Send.

#include <climits>

#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/poll.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/match_order.h"
#include "mpi/p2p/send_operation.h"

namespace fairlead::mpi {
namespace {

// While device operations are active, a send from host memory starts with `start`, the nonblocking form of
// the same mode, and polls, so that those operations progress. Buffered sends and sends to MPI_PROC_NULL do
// not block, so they need no polling.
template <auto blocking, auto start, SendMode mode, class Count>
[[gnu::always_inline]] inline int send(const void* buf, Count count, MPI_Datatype datatype, int dest, int tag,
                                       MPI_Comm comm) {
  CallRecord record(function_of<blocking>, a_send(count, datatype, dest, tag, comm));
  record.add_bytes(dest == MPI_PROC_NULL ? 0 : count, datatype);
  if (!intercepting() || is_invalid(buf, count, datatype))
    return (real.*blocking)(buf, count, datatype, dest, tag, comm);
  UserBuffer buffer{const_cast<void*>(buf), count, datatype};
  if (is_device(&buffer)) {
    if (comm == MPI_COMM_NULL || is_refused(count, datatype))
      return (real.*blocking)(buf, count, datatype, dest, tag, comm);
    record.note_device();
    Send operation(mode, buffer, dest, tag, comm);
    return run(operation, MPI_STATUS_IGNORE);
  }
  note_uncounted_send(dest, tag, comm);
  record.trace_sent(count, datatype, dest, tag, comm);
  if (mode == SendMode::buffered || dest == MPI_PROC_NULL || !engine().busy())
    return (real.*blocking)(buf, count, datatype, dest, tag, comm);
  MPI_Request request;
  int result = (real.*start)(buf, count, datatype, dest, tag, comm, &request);
  return result == MPI_SUCCESS ? poll_host(&request) : result;
}

template <auto start, SendMode mode, class Count>
[[gnu::always_inline]] inline int isend(const void* buf, Count count, MPI_Datatype datatype, int dest,
                                        int tag, MPI_Comm comm, MPI_Request* request) {
  CallRecord record(function_of<start>, a_send(count, datatype, dest, tag, comm, request));
  record.add_bytes(dest == MPI_PROC_NULL ? 0 : count, datatype);
  UserBuffer buffer{const_cast<void*>(buf), count, datatype};
  bool left_to_host = !intercepting() || !request || is_invalid(buf, count, datatype) ||
                      !is_device(&buffer) || comm == MPI_COMM_NULL || is_refused(count, datatype);
  if (!left_to_host && dest == MPI_PROC_NULL) {
    // No bytes are sent, so a device address does no harm, but the host MPI need not see it.
    return (real.*start)(nullptr, 0, datatype, dest, tag, comm, request);
  }
  if (left_to_host) {
    note_uncounted_send(dest, tag, comm);
    record.trace_sent(count, datatype, dest, tag, comm);
    return (real.*start)(buf, count, datatype, dest, tag, comm, request);
  }
  record.note_device();
  return hand_out(std::make_unique<Send>(mode, buffer, dest, tag, comm), request);
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

#define FAIRLEAD_SEND(Name, IName, mode)                                                                    \
  FAIRLEAD_MPI(Name,                                                                                        \
               (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm)) {     \
    return send<&Real::Name, &Real::IName, mode>(buf, count, datatype, dest, tag, comm);                    \
  }                                                                                                         \
  FAIRLEAD_MPI(Name##_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,       \
                          MPI_Comm comm)) {                                                                 \
    return send<&Real::Name##_c, &Real::IName##_c, mode>(buf, count, datatype, dest, tag, comm);            \
  }                                                                                                         \
  FAIRLEAD_MPI(IName, (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, \
                       MPI_Request* request)) {                                                             \
    return isend<&Real::IName, mode>(buf, count, datatype, dest, tag, comm, request);                       \
  }                                                                                                         \
  FAIRLEAD_MPI(IName##_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,      \
                           MPI_Comm comm, MPI_Request* request)) {                                          \
    return isend<&Real::IName##_c, mode>(buf, count, datatype, dest, tag, comm, request);                   \
  }

FAIRLEAD_SEND(Send, Isend, SendMode::standard)
FAIRLEAD_SEND(Ssend, Issend, SendMode::synchronous)
FAIRLEAD_SEND(Rsend, Irsend, SendMode::ready)
FAIRLEAD_SEND(Bsend, Ibsend, SendMode::buffered)
