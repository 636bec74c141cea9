// SPDX-License-Identifier: Apache-2.0
//
// MPI_Sendrecv and MPI_Sendrecv_replace: both halves are posted, then both are waited for.

#include <climits>

#include "mpi/front.h"
#include "mpi/request.h"

namespace fairlead::mpi {
namespace {

struct Half {
  UserBuffer buffer;
  int peer;
  int tag;
};

// Ends a half whose other half could not be started.
void abandon(Operation& operation) {
  operation.cancel();
  engine().wait(operation);
  engine().remove(&operation);
  MPI_Status ignored;
  operation.finish(&ignored);
}

int start_receive(Receive& operation) {
  int result = operation.start();
  if (result == MPI_SUCCESS) engine().add(&operation);
  return result;
}

int isend_host(const Half& half, MPI_Comm comm, MPI_Request* request) {
  const UserBuffer& buffer = half.buffer;
  return buffer.count <= INT_MAX ? real.Isend(buffer.address, static_cast<int>(buffer.count), buffer.datatype,
                                              half.peer, half.tag, comm, request)
                                 : real.Isend_c(buffer.address, buffer.count, buffer.datatype, half.peer,
                                                half.tag, comm, request);
}

// The half that sends is a Send when its bytes are device memory, else the host MPI's own.
int exchange(const Half& from, const Half& to, MPI_Comm comm, MPI_Status* status, bool in_place) {
  MPI_Status ignored;
  if (status == MPI_STATUS_IGNORE) status = &ignored;

  Send sending(SendMode::standard, from.buffer, from.peer, from.tag, comm);
  bool device = is_device(from.buffer.address, from.buffer.datatype);
  HostBuffer packed;
  Half host = from;
  if (in_place && device) {
    sending.buffer_at_once();
  } else if (in_place) {
    MPI_Count bytes = packed_bytes(from.buffer.count, from.buffer.datatype);
    packed = HostBuffer(static_cast<size_t>(bytes));
    if (!packed.data() ||
        !pack_host(from.buffer.address, from.buffer.count, from.buffer.datatype, packed.data(), bytes))
      return MPI_ERR_OTHER;
    host.buffer = {packed.data(), bytes, MPI_BYTE};
  }

  // In place, the bytes must have left the buffer before anything may arrive in it.
  MPI_Request request = MPI_REQUEST_NULL;
  auto send = [&] {
    int result = device ? sending.start() : isend_host(host, comm, &request);
    if (device && result == MPI_SUCCESS) engine().add(&sending);
    return result;
  };
  Receive receiving(to.buffer, to.peer, to.tag, comm);
  auto receive = [&] { return start_receive(receiving); };
  int result = in_place ? send() : receive();
  if (result != MPI_SUCCESS) return result;
  result = in_place ? receive() : send();
  if (result != MPI_SUCCESS) {
    if (!in_place) {
      abandon(receiving);
    } else if (device) {
      abandon(sending);
    } else {
      poll_until_complete(&request, MPI_STATUS_IGNORE);
    }
    return result;
  }

  int send_result = MPI_SUCCESS;
  if (device) {
    receiving.start_waiting();
    engine().wait(sending);
    engine().remove(&sending);
    MPI_Status sent;
    send_result = sending.finish(&sent);
  } else {
    send_result = poll_until_complete(&request, MPI_STATUS_IGNORE);
  }
  engine().wait(receiving);
  engine().remove(&receiving);
  result = receiving.finish(status);
  return result == MPI_SUCCESS ? send_result : result;
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

namespace {

template <auto slot, class Count>
int sendrecv(const void* sendbuf, Count sendcount, MPI_Datatype sendtype, int dest, int sendtag,
             void* recvbuf, Count recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
             MPI_Status* status) {
  auto host = [&](MPI_Status* into) {
    return (real.*slot)(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                        recvtag, comm, into);
  };
  if (!watching()) return host(status);
  // A device sender may wait until the receiving half takes its offer up, and so might, through the other
  // half, a peer: both halves must go on together.
  if (!engine().busy() && !is_device(sendbuf, sendtype) && !is_device(recvbuf, recvtype) &&
      room_of(recvcount, recvtype) == 0)
    return noted(host(status));
  return exchange({{const_cast<void*>(sendbuf), sendcount, sendtype}, dest, sendtag},
                  {{recvbuf, recvcount, recvtype}, source, recvtag}, comm, status, false);
}

template <auto slot, class Count>
int sendrecv_replace(void* buf, Count count, MPI_Datatype datatype, int dest, int sendtag, int source,
                     int recvtag, MPI_Comm comm, MPI_Status* status) {
  auto host = [&](MPI_Status* into) {
    return (real.*slot)(buf, count, datatype, dest, sendtag, source, recvtag, comm, into);
  };
  if (!watching()) return host(status);
  if (!engine().busy() && !is_device(buf, datatype) && room_of(count, datatype) == 0)
    return noted(host(status));
  return exchange({{buf, count, datatype}, dest, sendtag}, {{buf, count, datatype}, source, recvtag}, comm,
                  status, true);
}

}  // namespace

extern "C" FAIRLEAD_EXPORT int MPI_Sendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                                            int dest, int sendtag, void* recvbuf, int recvcount,
                                            MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                                            MPI_Status* status) {
  return sendrecv<&Real::Sendrecv>(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                                   source, recvtag, comm, status);
}

extern "C" FAIRLEAD_EXPORT int MPI_Sendrecv_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                                              int dest, int sendtag, void* recvbuf, MPI_Count recvcount,
                                              MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                                              MPI_Status* status) {
  return sendrecv<&Real::Sendrecv_c>(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                                     recvtype, source, recvtag, comm, status);
}

extern "C" FAIRLEAD_EXPORT int MPI_Sendrecv_replace(void* buf, int count, MPI_Datatype datatype, int dest,
                                                    int sendtag, int source, int recvtag, MPI_Comm comm,
                                                    MPI_Status* status) {
  return sendrecv_replace<&Real::Sendrecv_replace>(buf, count, datatype, dest, sendtag, source, recvtag, comm,
                                                   status);
}

extern "C" FAIRLEAD_EXPORT int MPI_Sendrecv_replace_c(void* buf, MPI_Count count, MPI_Datatype datatype,
                                                      int dest, int sendtag, int source, int recvtag,
                                                      MPI_Comm comm, MPI_Status* status) {
  return sendrecv_replace<&Real::Sendrecv_replace_c>(buf, count, datatype, dest, sendtag, source, recvtag,
                                                     comm, status);
}
