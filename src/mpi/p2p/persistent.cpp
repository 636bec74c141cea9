// SPDX-License-Identifier: Apache-2.0
//
// Persistent sends and receives. For a device buffer, the user's request is a host request for zero bytes:
// the host MPI checks its arguments, and Fairlead never starts it, except that the host MPI starts a request
// to or from MPI_PROC_NULL as usual. For a receive into host memory, which may receive an RTS header, the
// user's request is the host's own receive.

#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/match_order.h"
#include "mpi/p2p/receive_operation.h"
#include "mpi/p2p/send_operation.h"

namespace fairlead::mpi {
namespace {

template <auto slot, SendMode mode, class Count>
[[gnu::always_inline]] inline int send_init(const void* buf, Count count, MPI_Datatype datatype, int dest,
                                            int tag, MPI_Comm comm, MPI_Request* request) {
  CallRecord record(function_of<slot>, a_send(count, datatype, dest, tag, comm, request));
  if (!intercepting() || is_invalid(buf, count, datatype) || !is_device(buf, datatype)) {
    note_uncounted_send(dest, tag, comm);
    return (real.*slot)(buf, count, datatype, dest, tag, comm, request);
  }
  // In the standard mode: quirk send_init_unchecked.
  if (is_refused(count, datatype)) return real.Send_init(buf, 1, datatype, dest, tag, comm, request);
  MPI_Request token;
  int result = real.Send_init(nullptr, 0, MPI_BYTE, dest, tag, comm, &token);
  if (result != MPI_SUCCESS) return result;
  if (dest == MPI_PROC_NULL) {
    *request = token;
    return MPI_SUCCESS;
  }
  hand_out_persistent(
      std::make_unique<Send>(mode, UserBuffer{const_cast<void*>(buf), count, datatype}, dest, tag, comm),
      token, request);
  return MPI_SUCCESS;
}

template <auto slot, class Count>
[[gnu::always_inline]] inline int recv_init(void* buf, Count count, MPI_Datatype datatype, int source,
                                            int tag, MPI_Comm comm, MPI_Request* request) {
  CallRecord record(function_of<slot>, a_receive(count, datatype, source, tag, comm, request));
  auto host = [&] { return (real.*slot)(buf, count, datatype, source, tag, comm, request); };
  if (!intercepting() || is_invalid(buf, count, datatype) || is_refused(count, datatype)) return host();
  bool device = is_device(buf, datatype);
  if (source == MPI_PROC_NULL)
    return device ? real.Recv_init(nullptr, 0, MPI_BYTE, source, tag, comm, request) : host();
  auto operation = std::make_unique<Receive>(UserBuffer{buf, count, datatype}, source, tag, comm);
  MPI_Request handle;
  int result = device ? real.Recv_init(nullptr, 0, MPI_BYTE, source, tag, comm, &handle)
                      : operation->make_persistent(
                            [&](void* destination, MPI_Count room, MPI_Datatype type, MPI_Request* own) {
                              int result = (real.*slot)(destination, static_cast<Count>(room), type, source,
                                                        tag, comm, own);
                              handle = *own;
                              return result;
                            });
  if (result != MPI_SUCCESS) return result;
  if (device)
    operation->let_sender_put();
  else
    note_uncounted_receive(source, tag, comm);
  hand_out_persistent(std::move(operation), handle, request);
  return MPI_SUCCESS;
}

int start(MPI_Request* request) {
  Operation* operation = engine().find(*request);
  if (!operation) return real.Start(request);
  // Only an inactive persistent request can be started. For any other, MPI_Start of a null request makes the
  // host MPI report the error.
  MPI_Request none = MPI_REQUEST_NULL;
  if (!operation->persistent || operation->active) return real.Start(&none);
  int result = operation->start();
  if (result != MPI_SUCCESS) {
    operation->active = false;
    operation->give_buffers_back();
    return result;
  }
  const bool worth_a_round = operation->worth_a_round();
  engine().add(operation);
  help(*operation, false, worth_a_round);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

#define FAIRLEAD_SEND_INIT(Name, mode)                                                                     \
  FAIRLEAD_MPI(Name, (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm, \
                      MPI_Request* request)) {                                                             \
    return send_init<&Real::Name, mode>(buf, count, datatype, dest, tag, comm, request);                   \
  }                                                                                                        \
  FAIRLEAD_MPI(Name##_c, (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,      \
                          MPI_Comm comm, MPI_Request* request)) {                                          \
    return send_init<&Real::Name##_c, mode>(buf, count, datatype, dest, tag, comm, request);               \
  }

FAIRLEAD_SEND_INIT(Send_init, SendMode::standard)
FAIRLEAD_SEND_INIT(Ssend_init, SendMode::synchronous)
FAIRLEAD_SEND_INIT(Rsend_init, SendMode::ready)
FAIRLEAD_SEND_INIT(Bsend_init, SendMode::buffered)

FAIRLEAD_MPI(Recv_init, (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                         MPI_Request* request)) {
  return recv_init<&Real::Recv_init>(buf, count, datatype, source, tag, comm, request);
}

FAIRLEAD_MPI(Recv_init_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                           MPI_Comm comm, MPI_Request* request)) {
  return recv_init<&Real::Recv_init_c>(buf, count, datatype, source, tag, comm, request);
}

FAIRLEAD_MPI(Start, (MPI_Request * request)) {
  CallRecord record(Function::Start);
  return intercepting() && engine().busy() && request ? start(request) : real.Start(request);
}

// Starts the requests one by one, so that messages are posted in the order of the array (M1).
FAIRLEAD_MPI(Startall, (int count, MPI_Request requests[])) {
  CallRecord record(Function::Startall);
  if (!intercepting() || !engine().busy() || count < 0 || !requests) return real.Startall(count, requests);
  for (int i = 0; i < count; ++i)
    if (int result = start(&requests[i]); result != MPI_SUCCESS) return result;
  return MPI_SUCCESS;
}
