// SPDX-License-Identifier: Apache-2.0
//
// MPI_Recv, MPI_Irecv, MPI_Mrecv, MPI_Imrecv. A receive into host memory is of interest, too: its sender may
// have used device memory.

#include "mpi/front.h"
#include "mpi/record.h"
#include "mpi/request.h"
#include "mpi/stash.h"

namespace fairlead::mpi {
namespace {

template <auto blocking, class Count>
int take(void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
         MPI_Status* status) {
  UserBuffer buffer{buf, count, datatype};
  if (!watching() || is_invalid(count, datatype))
    return (real.*blocking)(buf, count, datatype, source, tag, comm, status);
  bool device = is_device(&buffer);
  if (!device && source == MPI_PROC_NULL)
    return (real.*blocking)(buf, count, datatype, source, tag, comm, status);
  const int room = device ? 0 : room_of(count, datatype);
  const bool fits = has_room_for_descriptor(room);
  if (!device && !engine().busy() && (!fits || descriptors_end_with_elements_of(datatype))) {
    if (may_swallow_offers(room))
      return noted((real.*blocking)(buf, count, datatype, source, tag, comm, status));
    MPI_Status local;
    if (status == MPI_STATUS_IGNORE) status = &local;
    if (fits) {
      FirstBytes before;
      before.read(buffer);
      int result = noted((real.*blocking)(buf, count, datatype, source, tag, comm, status));
      return result == MPI_SUCCESS ? complete_host_receive(buffer, before, comm, status) : result;
    }
    int errors_before = errors_noted;
    int result =
        noted(real.Recv(short_landing(), p2p::descriptor_bytes, MPI_BYTE, source, tag, comm, status));
    if (result != MPI_SUCCESS || errors_noted != errors_before) return result;
    return complete_short_receive(buffer, room, comm, status);
  }
  Receive operation(buffer, source, tag, comm);
  return run(operation, status);
}

template <auto blocking, class Count>
int receive(void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
            MPI_Status* status) {
  CallRecord record(function_of<blocking>);
  return record_receive(record, comm, status, [&](MPI_Status* wanted) {
    return take<blocking>(buf, count, datatype, source, tag, comm, wanted);
  });
}

template <auto start, class Count>
int ireceive(void* buf, Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
             MPI_Request* request) {
  CallRecord record(function_of<start>);
  if (!watching() || is_invalid(count, datatype))
    return (real.*start)(buf, count, datatype, source, tag, comm, request);
  if (source == MPI_PROC_NULL) {
    // Nothing will arrive, so a device address does no harm, but the host MPI need not see it.
    bool hide = is_device(buf, datatype);
    return (real.*start)(hide ? nullptr : buf, hide ? 0 : count, datatype, source, tag, comm, request);
  }
  UserBuffer buffer{buf, count, datatype};
  if (!is_device(&buffer) && may_swallow_offers(room_of(count, datatype))) {
    LookThenAsk together;
    MPI_Status ignored;
    if (!engine().busy() || !peek_stashed(source, tag, comm, &ignored))
      return (real.*start)(buf, count, datatype, source, tag, comm, request);
  }
  return hand_out(std::make_unique<Receive>(buffer, source, tag, comm), request);
}

// Messages of a descriptor's length were looked into when they were matched, so a host buffer is plain
// unless the handle stands for one of those. Null: the host MPI can do it alone.
std::unique_ptr<Receive> matched_receive(const UserBuffer& buffer, MPI_Message* message) {
  if (!watching() || *message == MPI_MESSAGE_NO_PROC || is_invalid(buffer.count, buffer.datatype))
    return nullptr;
  std::unique_ptr<Stashed> stashed;
  if (engine().busy()) stashed = take_handle(message);
  bool looked_into = stashed && stashed->looked_into();
  if (!looked_into && !is_device(buffer.address, buffer.datatype)) return nullptr;
  auto operation =
      std::make_unique<Receive>(buffer, MPI_ANY_SOURCE, MPI_ANY_TAG, stashed ? stashed->comm : MPI_COMM_SELF);
  if (looked_into)
    operation->take_stashed(std::move(stashed));
  else
    operation->take_matched(*message);
  *message = MPI_MESSAGE_NULL;
  return operation;
}

template <auto blocking, class Count>
int matched(void* buf, Count count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status) {
  CallRecord record(function_of<blocking>);
  return record_receive(record, MPI_COMM_NULL, status, [&](MPI_Status* wanted) {
    if (auto operation = matched_receive({buf, count, datatype}, message)) return run(*operation, wanted);
    Parked parked;
    return noted((real.*blocking)(buf, count, datatype, message, wanted));
  });
}

template <auto start, class Count>
int imatched(void* buf, Count count, MPI_Datatype datatype, MPI_Message* message, MPI_Request* request) {
  CallRecord record(function_of<start>);
  if (auto operation = matched_receive({buf, count, datatype}, message))
    return hand_out(std::move(operation), request);
  return (real.*start)(buf, count, datatype, message, request);
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

extern "C" FAIRLEAD_EXPORT int MPI_Recv(void* buf, int count, MPI_Datatype datatype, int source, int tag,
                                        MPI_Comm comm, MPI_Status* status) {
  return receive<&Real::Recv>(buf, count, datatype, source, tag, comm, status);
}

extern "C" FAIRLEAD_EXPORT int MPI_Recv_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source,
                                          int tag, MPI_Comm comm, MPI_Status* status) {
  return receive<&Real::Recv_c>(buf, count, datatype, source, tag, comm, status);
}

extern "C" FAIRLEAD_EXPORT int MPI_Irecv(void* buf, int count, MPI_Datatype datatype, int source, int tag,
                                         MPI_Comm comm, MPI_Request* request) {
  return ireceive<&Real::Irecv>(buf, count, datatype, source, tag, comm, request);
}

extern "C" FAIRLEAD_EXPORT int MPI_Irecv_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source,
                                           int tag, MPI_Comm comm, MPI_Request* request) {
  return ireceive<&Real::Irecv_c>(buf, count, datatype, source, tag, comm, request);
}

extern "C" FAIRLEAD_EXPORT int MPI_Mrecv(void* buf, int count, MPI_Datatype datatype, MPI_Message* message,
                                         MPI_Status* status) {
  return matched<&Real::Mrecv>(buf, count, datatype, message, status);
}

extern "C" FAIRLEAD_EXPORT int MPI_Mrecv_c(void* buf, MPI_Count count, MPI_Datatype datatype,
                                           MPI_Message* message, MPI_Status* status) {
  return matched<&Real::Mrecv_c>(buf, count, datatype, message, status);
}

extern "C" FAIRLEAD_EXPORT int MPI_Imrecv(void* buf, int count, MPI_Datatype datatype, MPI_Message* message,
                                          MPI_Request* request) {
  return imatched<&Real::Imrecv>(buf, count, datatype, message, request);
}

extern "C" FAIRLEAD_EXPORT int MPI_Imrecv_c(void* buf, MPI_Count count, MPI_Datatype datatype,
                                            MPI_Message* message, MPI_Request* request) {
  return imatched<&Real::Imrecv_c>(buf, count, datatype, message, request);
}
