// SPDX-License-Identifier: Apache-2.0
//
// The functions that enqueue an operation on the stream of a communicator (include/fairlead/stream.h). A
// message starts in the call where it can; all else is the nonblocking function of MPI, which starts when the
// stream has come to it, in whichever thread makes progress. The arguments are copied by the call; buffers
// belong to the operation until the stream has passed it, or its MPIX_Wait_enqueue().

#include <climits>
#include <vector>

#include "mpi/abi/host_support.h"
#include "mpi/coll/entry/collective.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/request.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/p2p/receive_operation.h"
#include "mpi/p2p/send_operation.h"
#include "mpi/stream/streams.h"

// Fairlead's own, which not every mpi.h declares.
extern "C" int fairlead_Isend_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                MPI_Comm comm, MPI_Request* request) __asm__("MPI_Isend_c");
extern "C" int fairlead_Irecv_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                                MPI_Comm comm, MPI_Request* request) __asm__("MPI_Irecv_c");

namespace fairlead::mpi {
namespace {

// The program may free its datatype before the stream comes to the operation.
using Type = std::shared_ptr<KeptType>;
Type keep(MPI_Datatype datatype) {
  return std::make_shared<KeptType>(datatype);
}

int start_early(Function function, const CallArguments& arguments, const UserBuffer* sent,
                std::unique_ptr<Operation> operation, StreamGate gate, Operation** started) {
  const CallRecord record(function, arguments);
  if (sent) record.add_bytes(sent->count, sent->datatype);
  operation->start_early(gate);
  return start_detached(std::move(operation), started);
}

// Classifies the memory of an operation before it is enqueued, so that copies can be prepared on its device.
// Remembers what it finds.
UserBuffer classified(void* buf, MPI_Count count, MPI_Datatype datatype, bool exists) {
  UserBuffer buffer{buf, count, datatype};
  if (exists && intercepting() && !is_invalid(buf, count, datatype)) (void)is_device(&buffer);
  return buffer;
}

EnqueuedWork send(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
  auto start = [=, type = keep(datatype)](MPI_Request* request) {
    return count > INT_MAX ? fairlead_Isend_c(buf, count, type->get(), dest, tag, comm, request)
                           : MPI_Isend(buf, static_cast<int>(count), type->get(), dest, tag, comm, request);
  };
  const bool exists = dest != MPI_PROC_NULL;
  const UserBuffer user = classified(const_cast<void*>(buf), count, datatype, exists);
  auto early = [=](StreamGate gate, Operation** started) {
    UserBuffer buffer = user;
    if (!intercepting() || is_invalid(buf, count, datatype) || !is_device(&buffer) ||
        is_refused(count, datatype))
      return Operation::cannot_be_early;
    return start_early(Function::Isend, a_send(count, datatype, dest, tag, comm), &buffer,
                       std::make_unique<Send>(SendMode::standard, buffer, dest, tag, comm), gate, started);
  };
  return {start, early, exists, !exists && !is_invalid(buf, count, datatype)};
}

EnqueuedWork receive(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm) {
  auto start = [=, type = keep(datatype)](MPI_Request* request) {
    return count > INT_MAX ? fairlead_Irecv_c(buf, count, type->get(), source, tag, comm, request)
                           : MPI_Irecv(buf, static_cast<int>(count), type->get(), source, tag, comm, request);
  };
  const bool exists = source != MPI_PROC_NULL;
  const UserBuffer user = classified(buf, count, datatype, exists);
  auto early = [=](StreamGate gate, Operation** started) {
    if (!intercepting() || is_invalid(buf, count, datatype) || is_refused(count, datatype))
      return Operation::cannot_be_early;
    return start_early(Function::Irecv, a_receive(count, datatype, source, tag, comm), nullptr,
                       std::make_unique<Receive>(user, source, tag, comm), gate, started);
  };
  return {start, early, exists, !exists && !is_invalid(buf, count, datatype)};
}

// The nonblocking function of MPI. The program may change its arrays after the call.
StartOperation start_of(Function function, CollectiveCall call) {
  struct Kept {
    KeptArrays arrays;
    std::vector<Type> types;
    std::vector<MPI_Datatype> sent, received;
  };
  std::shared_ptr<Kept> kept;
  if (call.shape().has_arrays()) {
    const CommPosition position = position_in(call.comm);
    kept = std::make_shared<Kept>();
    kept->arrays.keep(&call, position);
    auto keep_all = [&](const MPI_Datatype** types, size_t many, std::vector<MPI_Datatype>* copies) {
      if (!*types) return;
      for (size_t i = 0; i < many; ++i) {
        kept->types.push_back(keep((*types)[i]));
        copies->push_back(kept->types.back()->get());
      }
      *types = copies->data();
    };
    const auto [sent, received] = array_lengths(call, position);
    keep_all(&call.sendtypes, sent, &kept->sent);
    keep_all(&call.recvtypes, received, &kept->received);
  }
  return [=, from = keep(call.sendtype), to = keep(call.recvtype)](MPI_Request* request) {
    (void)kept;  // what the call points to
    CollectiveCall now = call;
    now.sendtype = from->get();
    now.recvtype = to->get();
    return start_collective(function, now, request);
  };
}

int enqueue_collective(Function function, const CollectiveCall& call) {
  return enqueue_collective(function, call, [&] {
    for (const void* buffer : {call.sendbuf, static_cast<const void*>(call.recvbuf)})
      (void)is_device(buffer);  // as classified()
    return start_of(function, call);
  });
}

// Null: the communicator has a stream of Fairlead's, or nobody can enqueue on it.
void* function_of_host(MPI_Comm comm, const char* name) {
  return stream_communicator(comm) ? nullptr : next_function(name);
}

}  // namespace
}  // namespace fairlead::mpi

using namespace fairlead::mpi;

// On communicators without a GPU stream of Fairlead's these are the host MPI's, if it has them.
#define FAIRLEAD_ENQUEUE_AS(function, parameters, arguments)                \
  static int do_##function parameters;                                      \
  FAIRLEAD_MPIX(function, parameters) {                                     \
    const ExtensionCall call("MPIX_" #function);                            \
    if (void* of_host = function_of_host(comm, "MPIX_" #function))          \
      return reinterpret_cast<decltype(&do_##function)>(of_host) arguments; \
    return do_##function arguments;                                         \
  }                                                                         \
  static int do_##function parameters
#define FAIRLEAD_ENQUEUE(name, parameters, arguments) \
  FAIRLEAD_ENQUEUE_AS(name##_enqueue, parameters, arguments)

FAIRLEAD_ENQUEUE_AS(Send_enqueue_c,
                    (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                     MPI_Comm comm),
                    (buf, count, datatype, dest, tag, comm)) {
  EnqueuedWork works[] = {send(buf, count, datatype, dest, tag, comm)};
  return enqueue(comm, works);
}
FAIRLEAD_ENQUEUE(Send, (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm),
                 (buf, count, datatype, dest, tag, comm)) {
  return do_Send_enqueue_c(buf, count, datatype, dest, tag, comm);
}
FAIRLEAD_ENQUEUE_AS(Recv_enqueue_c,
                    (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                     MPI_Status* status),
                    (buf, count, datatype, source, tag, comm, status)) {
  EnqueuedWork works[] = {receive(buf, count, datatype, source, tag, comm)};
  return enqueue(comm, works, status);
}
FAIRLEAD_ENQUEUE(Recv,
                 (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                  MPI_Status* status),
                 (buf, count, datatype, source, tag, comm, status)) {
  return do_Recv_enqueue_c(buf, count, datatype, source, tag, comm, status);
}
FAIRLEAD_ENQUEUE_AS(Isend_enqueue_c,
                    (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                     MPI_Comm comm, MPI_Request* request),
                    (buf, count, datatype, dest, tag, comm, request)) {
  *request = MPI_REQUEST_NULL;
  return enqueue(comm, send(buf, count, datatype, dest, tag, comm), request);
}
FAIRLEAD_ENQUEUE(Isend,
                 (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                  MPI_Request* request),
                 (buf, count, datatype, dest, tag, comm, request)) {
  return do_Isend_enqueue_c(buf, count, datatype, dest, tag, comm, request);
}
FAIRLEAD_ENQUEUE_AS(Irecv_enqueue_c,
                    (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                     MPI_Request* request),
                    (buf, count, datatype, source, tag, comm, request)) {
  *request = MPI_REQUEST_NULL;
  return enqueue(comm, receive(buf, count, datatype, source, tag, comm), request);
}
FAIRLEAD_ENQUEUE(Irecv,
                 (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                  MPI_Request* request),
                 (buf, count, datatype, source, tag, comm, request)) {
  return do_Irecv_enqueue_c(buf, count, datatype, source, tag, comm, request);
}
FAIRLEAD_MPIX(Wait_enqueue, (MPI_Request * request, MPI_Status* status)) {
  const ExtensionCall call("MPIX_Wait_enqueue");
  return wait_enqueued(1, request, [=](int) { return status; });
}
FAIRLEAD_MPIX(Waitall_enqueue, (int count, MPI_Request* requests, MPI_Status* statuses)) {
  const ExtensionCall call("MPIX_Waitall_enqueue");
  return wait_enqueued(count, requests, [=](int i) {
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[i];
  });
}
FAIRLEAD_ENQUEUE(Sendrecv,
                 (const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                  void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                  MPI_Status* status),
                 (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source, recvtag,
                  comm, status)) {
  EnqueuedWork works[] = {receive(recvbuf, recvcount, recvtype, source, recvtag, comm),
                          send(sendbuf, sendcount, sendtype, dest, sendtag, comm)};
  return enqueue(comm, works, status);
}
FAIRLEAD_ENQUEUE(Start, (MPI_Request * request, MPI_Comm comm), (request, comm)) {
  if (*request == MPI_REQUEST_NULL)
    return raise_error(comm, MPI_ERR_REQUEST, "the start of MPI_REQUEST_NULL");
  bool noted = false;
  if (const auto started = start_partitioned(*request, comm, &noted)) return *started;
  auto start = [persistent = *request, noted](MPI_Request* started) {
    *started = persistent;
    const int result = MPI_Start(started);
    if (noted) forget_start(persistent);
    return result;
  };
  const int result = enqueue(comm, EnqueuedWork{start, nullptr, true}, request);
  if (result != MPI_SUCCESS && noted) forget_start(*request);
  return result;
}
#include "mpi/stream/generated/enqueued_collectives.inc"
