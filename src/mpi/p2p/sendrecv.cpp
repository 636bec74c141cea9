// SPDX-License-Identifier: Apache-2.0
//
// MPI_Sendrecv, MPI_Isendrecv and their replace forms. The nonblocking forms use only MPI_Isend and MPI_Irecv
// of the host MPI, so they work even if it lacks MPI_Isendrecv.

#include <algorithm>

#include "mpi/core/forwarded_receives.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/match_order.h"
#include "mpi/p2p/receive_operation.h"
#include "mpi/p2p/sendrecv_operation.h"

using namespace fairlead::mpi;

namespace {

// A send from device memory records its own flow event.
void record_sending_half(CallRecord& record, const UserBuffer& buffer, int dest, int tag, MPI_Comm comm) {
  record.add_bytes(dest == MPI_PROC_NULL ? 0 : buffer.count, buffer.datatype);
  if (record.on() && !is_device(buffer.address, buffer.datatype))
    record.trace_sent(buffer.count, buffer.datatype, dest, tag, comm);
}

bool is_unusable(const UserBuffer& buffer) {
  return is_invalid(buffer.address, buffer.count, buffer.datatype) ||
         is_refused(buffer.count, buffer.datatype);
}

// For the nonblocking forms: passes the invalid buffer to MPI_Isend, which every host MPI has, so that the
// host MPI reports the error.
int refuse(const UserBuffer& invalid, MPI_Comm comm, MPI_Request* request) {
  int count = static_cast<int>(std::clamp<MPI_Count>(invalid.count, -1, 1));
  return real.Isend(invalid.address, count, invalid.datatype, MPI_PROC_NULL, 0, comm, request);
}

template <auto slot, class Count>
int exchange(const void* sendbuf, Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
             void* recvbuf, Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
             MPI_Status* status) {
  auto host = [&] {
    return (real.*slot)(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                        recvtag, comm, status);
  };
  if (!intercepting() || is_invalid(sendbuf, sendcount, sendtype) || is_invalid(recvbuf, recvcount, recvtype))
    return host();
  // A device sender may wait until the receiving half claims its rendezvous, and the peer of the sending half
  // may wait likewise, so both halves must progress together.
  if (!engine().busy() && !is_device(sendbuf, sendtype) && !is_device(recvbuf, recvtype)) {
    note_uncounted_send(dest, sendtag, comm);
    note_uncounted_receive(source, recvtag, comm);
    if (int result; forward_receive(room_of(recvcount, recvtype), host, &result)) return result;
  }
  if (is_refused(sendcount, sendtype) || is_refused(recvcount, recvtype)) return host();
  SendReceive operation({{const_cast<void*>(sendbuf), sendcount, sendtype}, dest, sendtag},
                        {{recvbuf, recvcount, recvtype}, source, recvtag}, comm);
  return run(operation, status);
}

template <auto slot, class Count>
int exchange_in_place(void* buf, Count count, MPI_Datatype datatype, int dest, int sendtag, int source,
                      int recvtag, MPI_Comm comm, MPI_Status* status) {
  auto host = [&] {
    return (real.*slot)(buf, count, datatype, dest, sendtag, source, recvtag, comm, status);
  };
  if (!intercepting() || is_invalid(buf, count, datatype)) return host();
  if (!engine().busy() && !is_device(buf, datatype)) {
    note_uncounted_send(dest, sendtag, comm);
    note_uncounted_receive(source, recvtag, comm);
    if (int result; forward_receive(room_of(count, datatype), host, &result)) return result;
  }
  if (is_refused(count, datatype)) return host();
  UserBuffer buffer{buf, count, datatype};
  SendReceive operation({buffer, dest, sendtag}, {buffer, source, recvtag}, comm);
  operation.replace();
  return run(operation, status);
}

template <auto slot, class Count>
[[gnu::always_inline]] inline int sendrecv(const void* sendbuf, Count sendcount, MPI_Datatype sendtype,
                                           int dest, int sendtag, void* recvbuf, Count recvcount,
                                           MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                                           MPI_Status* status) {
  CallRecord record(function_of<slot>,
                    an_exchange(sendcount, sendtype, dest, sendtag, source, recvtag, comm));
  record_sending_half(record, {const_cast<void*>(sendbuf), sendcount, sendtype}, dest, sendtag, comm);
  return record_receive(record, comm, status, [&](MPI_Status* wanted) {
    return exchange<slot>(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                          recvtag, comm, wanted);
  });
}

template <auto slot, class Count>
[[gnu::always_inline]] inline int sendrecv_replace(void* buf, Count count, MPI_Datatype datatype, int dest,
                                                   int sendtag, int source, int recvtag, MPI_Comm comm,
                                                   MPI_Status* status) {
  CallRecord record(function_of<slot>, an_exchange(count, datatype, dest, sendtag, source, recvtag, comm));
  record_sending_half(record, {buf, count, datatype}, dest, sendtag, comm);
  return record_receive(record, comm, status, [&](MPI_Status* wanted) {
    return exchange_in_place<slot>(buf, count, datatype, dest, sendtag, source, recvtag, comm, wanted);
  });
}

template <auto slot, class Count>
[[gnu::always_inline]] inline int isendrecv(const void* sendbuf, Count sendcount, MPI_Datatype sendtype,
                                            int dest, int sendtag, void* recvbuf, Count recvcount,
                                            MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                                            MPI_Request* request) {
  CallRecord record(function_of<slot>,
                    an_exchange(sendcount, sendtype, dest, sendtag, source, recvtag, comm, request));
  record_sending_half(record, {const_cast<void*>(sendbuf), sendcount, sendtype}, dest, sendtag, comm);
  if (!intercepting())
    return (real.*slot)(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                        recvtag, comm, request);
  UserBuffer from{const_cast<void*>(sendbuf), sendcount, sendtype}, to{recvbuf, recvcount, recvtype};
  for (const UserBuffer& buffer : {from, to})
    if (is_unusable(buffer)) return refuse(buffer, comm, request);
  auto operation = std::make_unique<SendReceive>(Half{from, dest, sendtag}, Half{to, source, recvtag}, comm);
  operation->let_sender_put();
  return hand_out(std::move(operation), request);
}

template <auto slot, class Count>
[[gnu::always_inline]] inline int isendrecv_replace(void* buf, Count count, MPI_Datatype datatype, int dest,
                                                    int sendtag, int source, int recvtag, MPI_Comm comm,
                                                    MPI_Request* request) {
  CallRecord record(function_of<slot>,
                    an_exchange(count, datatype, dest, sendtag, source, recvtag, comm, request));
  record_sending_half(record, {buf, count, datatype}, dest, sendtag, comm);
  if (!intercepting())
    return (real.*slot)(buf, count, datatype, dest, sendtag, source, recvtag, comm, request);
  UserBuffer buffer{buf, count, datatype};
  if (is_unusable(buffer)) return refuse(buffer, comm, request);
  auto operation =
      std::make_unique<SendReceive>(Half{buffer, dest, sendtag}, Half{buffer, source, recvtag}, comm);
  operation->replace();
  return hand_out(std::move(operation), request);
}

}  // namespace

FAIRLEAD_MPI(Sendrecv, (const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                        void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                        MPI_Comm comm, MPI_Status* status)) {
  return sendrecv<&Real::Sendrecv>(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                                   source, recvtag, comm, status);
}

FAIRLEAD_MPI(Sendrecv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                          int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source,
                          int recvtag, MPI_Comm comm, MPI_Status* status)) {
  return sendrecv<&Real::Sendrecv_c>(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                     recvtype, source, recvtag, comm, status);
}

FAIRLEAD_MPI(Sendrecv_replace, (void* buf, int count, MPI_Datatype datatype, int dest, int sendtag,
                                int source, int recvtag, MPI_Comm comm, MPI_Status* status)) {
  return sendrecv_replace<&Real::Sendrecv_replace>(buf, count, datatype, dest, sendtag, source, recvtag, comm,
                                                   status);
}

FAIRLEAD_MPI(Sendrecv_replace_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
                                  int source, int recvtag, MPI_Comm comm, MPI_Status* status)) {
  return sendrecv_replace<&Real::Sendrecv_replace_c>(buf, count, datatype, dest, sendtag, source, recvtag,
                                                     comm, status);
}

FAIRLEAD_MPI(Isendrecv, (const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                         void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                         MPI_Comm comm, MPI_Request* request)) {
  return isendrecv<&Real::Isendrecv>(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                     recvtype, source, recvtag, comm, request);
}

FAIRLEAD_MPI(Isendrecv_c, (const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
                           int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source,
                           int recvtag, MPI_Comm comm, MPI_Request* request)) {
  return isendrecv<&Real::Isendrecv_c>(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                       recvtype, source, recvtag, comm, request);
}

FAIRLEAD_MPI(Isendrecv_replace, (void* buf, int count, MPI_Datatype datatype, int dest, int sendtag,
                                 int source, int recvtag, MPI_Comm comm, MPI_Request* request)) {
  return isendrecv_replace<&Real::Isendrecv_replace>(buf, count, datatype, dest, sendtag, source, recvtag,
                                                     comm, request);
}

FAIRLEAD_MPI(Isendrecv_replace_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
                                   int source, int recvtag, MPI_Comm comm, MPI_Request* request)) {
  return isendrecv_replace<&Real::Isendrecv_replace_c>(buf, count, datatype, dest, sendtag, source, recvtag,
                                                       comm, request);
}
