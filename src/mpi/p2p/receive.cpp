// SPDX-License-Identifier: Apache-2.0
//
// MPI_Recv, MPI_Irecv, MPI_Mrecv and MPI_Imrecv. Receives into host memory are handled as well, because the
// sender may have used device memory.

#include "mpi/abi/comm_self.h"
#include "mpi/core/forwarded_receives.h"
#include "mpi/core/hooks.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/match_order.h"
#include "mpi/p2p/probed_messages.h"
#include "mpi/p2p/receive_operation.h"

namespace fairlead::mpi {
namespace {

template <auto blocking, class Count>
int blocking_receive(const CallRecord& record, void* buf, Count count, MPI_Datatype datatype, int source,
                     int tag, MPI_Comm comm, MPI_Status* status) {
  UserBuffer buffer{buf, count, datatype};
  auto host = [&] { return (real.*blocking)(buf, count, datatype, source, tag, comm, status); };
  if (!intercepting() || is_invalid(buf, count, datatype)) return host();
  bool device = is_device(&buffer);
  if (device) record.note_device();
  // No message arrives from MPI_PROC_NULL, so a device address does no harm.
  if (source == MPI_PROC_NULL) return host();
  const int room = device ? 0 : room_of(count, datatype);
  const bool fits = has_room_for_rts(room);
  if (!device) note_uncounted_receive(source, tag, comm);
  if (!device && !engine().busy())
    if (int result; forward_receive(room, host, &result)) return result;
  // Receives in flight may have become operations.
  if (!device && !engine().busy() && (!fits || rts_ends_with_elements_of(datatype))) {
    MPI_Status local;
    if (status == MPI_STATUS_IGNORE) status = &local;
    if (fits) {
      FirstBytes before;
      before.read(buffer);
      int result = noted(host());
      return result == MPI_SUCCESS ? complete_host_receive(buffer, before, comm, status) : result;
    }
    if (is_refused(count, datatype)) return host();
    int errors_before = errors_noted;
    int result = noted(real.Recv(short_bounce_buffer(), p2p::rts_bytes, MPI_BYTE, source, tag, comm, status));
    if (result != MPI_SUCCESS || errors_noted != errors_before) return result;
    return complete_short_receive(buffer, room, comm, status);
  }
  if (is_refused(count, datatype)) return host();
  Receive operation(buffer, source, tag, comm);
  return run(operation, status);
}

template <auto blocking, class Count>
[[gnu::always_inline]] inline int receive(void* buf, Count count, MPI_Datatype datatype, int source, int tag,
                                          MPI_Comm comm, MPI_Status* status) {
  CallRecord record(function_of<blocking>, a_receive(count, datatype, source, tag, comm));
  return record_receive(record, comm, status, [&](MPI_Status* wanted) {
    return blocking_receive<blocking>(record, buf, count, datatype, source, tag, comm, wanted);
  });
}

template <auto start, class Count>
[[gnu::always_inline]] inline int ireceive(void* buf, Count count, MPI_Datatype datatype, int source, int tag,
                                           MPI_Comm comm, MPI_Request* request) {
  CallRecord record(function_of<start>, a_receive(count, datatype, source, tag, comm, request));
  // No message arrives from MPI_PROC_NULL, so a device address does no harm.
  if (!intercepting() || !request || is_invalid(buf, count, datatype) || source == MPI_PROC_NULL)
    return (real.*start)(buf, count, datatype, source, tag, comm, request);
  UserBuffer buffer{buf, count, datatype};
  if (!is_device(&buffer)) {
    note_uncounted_receive(source, tag, comm);
    const int room = room_of(count, datatype);
    if (may_swallow_rts(room)) {
      ProbeQueueLock together;
      MPI_Status ignored;
      if (!engine().busy() || !peek_probed(source, tag, comm, &ignored))
        return (real.*start)(buf, count, datatype, source, tag, comm, request);
    } else if (has_room_for_rts(room) && is_plain(datatype) && !engine().busy() && !recording()) {
      // A shorter one is not forwarded: while it is in flight it could not be watched, and senders would send
      // whole messages to this rank.
      if (ForwardedReceives& forwarded = forwarded_receives(); forwarded.block_rts()) {
        const int result = (real.*start)(buf, count, datatype, source, tag, comm, request);
        // Quirk error_hidden_by_handler.
        if (result == MPI_SUCCESS && *request != MPI_REQUEST_NULL)
          forwarded.add({*request, buf, room, count, datatype, source, tag, comm});
        else
          forwarded.give_up();
        return result;
      }
    }
  }
  if (is_refused(count, datatype)) return (real.*start)(buf, count, datatype, source, tag, comm, request);
  if (is_device(&buffer)) record.note_device();
  auto operation = std::make_unique<Receive>(buffer, source, tag, comm);
  operation->let_sender_put();
  return hand_out(std::move(operation), request);
}

// Returns null if the host MPI can receive the message alone. The matched probe has read every message as
// long as an RTS header, so a message for a host buffer holds the user's bytes unless its handle stands for
// one that was read.
std::unique_ptr<Receive> matched_receive(const UserBuffer& buffer, MPI_Message* message) {
  if (!intercepting() || !message || *message == MPI_MESSAGE_NULL || *message == MPI_MESSAGE_NO_PROC ||
      is_invalid(buffer.address, buffer.count, buffer.datatype) || is_refused(buffer.count, buffer.datatype))
    return nullptr;
  std::unique_ptr<ProbedMessage> probed;
  if (engine().busy()) probed = take_handle(message);
  bool looked_into = probed && probed->looked_into();
  if (!looked_into && !is_device(buffer.address, buffer.datatype)) return nullptr;
  auto operation =
      std::make_unique<Receive>(buffer, MPI_ANY_SOURCE, MPI_ANY_TAG, probed ? probed->comm : comm_self());
  if (looked_into)
    operation->take_probed(std::move(probed));
  else
    operation->take_matched(*message);
  *message = MPI_MESSAGE_NULL;
  return operation;
}

// The host MPI has received a matched message, or has begun to: a question of its sender came before it.
int noted_match(int result, MPI_Count count, MPI_Datatype datatype) {
  if (result == MPI_SUCCESS && intercepting() && !is_invalid(count, datatype))
    note_forwarded(room_of(count, datatype));
  return result;
}

template <auto blocking, class Count>
[[gnu::always_inline]] inline int matched(void* buf, Count count, MPI_Datatype datatype, MPI_Message* message,
                                          MPI_Status* status) {
  CallRecord record(function_of<blocking>);
  return record_receive(record, MPI_COMM_NULL, status, [&](MPI_Status* wanted) {
    if (auto operation = matched_receive({buf, count, datatype}, message)) return run(*operation, wanted);
    BlockingHostCall blocking_call;
    return noted_match(noted((real.*blocking)(buf, count, datatype, message, wanted)), count, datatype);
  });
}

template <auto start, class Count>
[[gnu::always_inline]] inline int imatched(void* buf, Count count, MPI_Datatype datatype,
                                           MPI_Message* message, MPI_Request* request) {
  CallRecord record(function_of<start>);
  if (auto operation = matched_receive({buf, count, datatype}, message))
    return hand_out(std::move(operation), request);
  return noted_match((real.*start)(buf, count, datatype, message, request), count, datatype);
}

void watch(const ForwardedReceive& posted) {
  auto operation = std::make_unique<Receive>(UserBuffer{posted.address, posted.count, posted.datatype},
                                             posted.source, posted.tag, posted.comm);
  operation->watch(posted.request);
  engine().bind(posted.request, operation.get());
  engine().add(operation.release());
}

[[maybe_unused]] const bool hooked = add_hooks({.watch = watch});

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

FAIRLEAD_MPI(Recv, (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                    MPI_Status* status)) {
  return receive<&Real::Recv>(buf, count, datatype, source, tag, comm, status);
}

FAIRLEAD_MPI(Recv_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                      MPI_Status* status)) {
  return receive<&Real::Recv_c>(buf, count, datatype, source, tag, comm, status);
}

FAIRLEAD_MPI(Irecv, (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                     MPI_Request* request)) {
  return ireceive<&Real::Irecv>(buf, count, datatype, source, tag, comm, request);
}

FAIRLEAD_MPI(Irecv_c, (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                       MPI_Request* request)) {
  return ireceive<&Real::Irecv_c>(buf, count, datatype, source, tag, comm, request);
}

FAIRLEAD_MPI(Mrecv, (void* buf, int count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status)) {
  return matched<&Real::Mrecv>(buf, count, datatype, message, status);
}

FAIRLEAD_MPI(Mrecv_c,
             (void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message, MPI_Status* status)) {
  return matched<&Real::Mrecv_c>(buf, count, datatype, message, status);
}

FAIRLEAD_MPI(Imrecv,
             (void* buf, int count, MPI_Datatype datatype, MPI_Message* message, MPI_Request* request)) {
  return imatched<&Real::Imrecv>(buf, count, datatype, message, request);
}

FAIRLEAD_MPI(Imrecv_c, (void* buf, MPI_Count count, MPI_Datatype datatype, MPI_Message* message,
                        MPI_Request* request)) {
  return imatched<&Real::Imrecv_c>(buf, count, datatype, message, request);
}
