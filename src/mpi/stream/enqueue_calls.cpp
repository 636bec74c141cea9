// SPDX-License-Identifier: Apache-2.0
//
// The functions that enqueue an operation on the stream of a communicator (include/fairlead/stream.h). A
// message starts in the call where it can; all else is the nonblocking function of MPI, which starts when the
// stream has come to it, in whichever thread makes progress. The arguments are copied by the call; buffers
// belong to the operation until the stream has passed it, or its MPIX_Wait_enqueue().

#include <climits>
#include <vector>

#include "mpi/abi/host_support.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/core/record.h"
#include "mpi/core/request.h"
#include "mpi/p2p/kept_type.h"
#include "mpi/p2p/partitioned.h"
#include "mpi/p2p/receive_operation.h"
#include "mpi/p2p/send_operation.h"
#include "mpi/stream/streams.h"

// Fairlead's own, which not every mpi.h declares.
extern "C" int fairlead_Isend_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                                MPI_Comm comm, MPI_Request* request) __asm__("MPI_Isend_c");
extern "C" int fairlead_Irecv_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                                MPI_Comm comm, MPI_Request* request) __asm__("MPI_Irecv_c");
extern "C" int fairlead_Iallreduce_c(const void* sendbuf, void* recvbuf, MPI_Count count,
                                     MPI_Datatype datatype, MPI_Op op, MPI_Comm comm,
                                     MPI_Request* request) __asm__("MPI_Iallreduce_c");

namespace fairlead::mpi {
namespace {

// The program may free its datatype before the stream comes to the operation.
using Type = std::shared_ptr<KeptType>;
Type keep(MPI_Datatype datatype) {
  return std::make_shared<KeptType>(datatype);
}

int start_early(Function function, const UserBuffer* sent, std::unique_ptr<Operation> operation,
                StreamGate gate, Operation** started) {
  const CallRecord record(function);
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

Work send(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm) {
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
    return start_early(Function::Isend, &buffer,
                       std::make_unique<Send>(SendMode::standard, buffer, dest, tag, comm), gate, started);
  };
  return {start, early, exists, !exists && !is_invalid(buf, count, datatype)};
}

Work receive(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm) {
  auto start = [=, type = keep(datatype)](MPI_Request* request) {
    return count > INT_MAX ? fairlead_Irecv_c(buf, count, type->get(), source, tag, comm, request)
                           : MPI_Irecv(buf, static_cast<int>(count), type->get(), source, tag, comm, request);
  };
  const bool exists = source != MPI_PROC_NULL;
  const UserBuffer user = classified(buf, count, datatype, exists);
  auto early = [=](StreamGate gate, Operation** started) {
    if (!intercepting() || is_invalid(buf, count, datatype) || is_refused(count, datatype))
      return Operation::cannot_be_early;
    return start_early(Function::Irecv, nullptr, std::make_unique<Receive>(user, source, tag, comm), gate,
                       started);
  };
  return {start, early, exists, !exists && !is_invalid(buf, count, datatype)};
}

// The nonblocking function of MPI for a collective that the stream may do, too.
StartOperation start_of(const CollectiveCall& call) {
  return [=, from = keep(call.sendtype), to = keep(call.recvtype)](MPI_Request* request) -> int {
    const MPI_Datatype sendtype = from->get(), recvtype = to->get();
    const int sends = static_cast<int>(call.sendcount), receives = static_cast<int>(call.recvcount);
    const void* const in = call.sendbuf;
    void* const out = call.recvbuf;
    switch (call.function) {
      case Collective::barrier:
        return MPI_Ibarrier(call.comm, request);
      case Collective::bcast:
        return MPI_Ibcast(out, receives, recvtype, call.root, call.comm, request);
      case Collective::reduce:
        return MPI_Ireduce(in, out, receives, recvtype, call.op, call.root, call.comm, request);
      case Collective::allreduce:
        if (call.recvcount > INT_MAX)
          return fairlead_Iallreduce_c(in, out, call.recvcount, recvtype, call.op, call.comm, request);
        return MPI_Iallreduce(in, out, receives, recvtype, call.op, call.comm, request);
      case Collective::reduce_scatter_block:
        return MPI_Ireduce_scatter_block(in, out, receives, recvtype, call.op, call.comm, request);
      case Collective::allgather:
        return MPI_Iallgather(in, sends, sendtype, out, receives, recvtype, call.comm, request);
      case Collective::alltoall:
        return MPI_Ialltoall(in, sends, sendtype, out, receives, recvtype, call.comm, request);
      case Collective::neighbor_allgather:
        return MPI_Ineighbor_allgather(in, sends, sendtype, out, receives, recvtype, call.comm, request);
      case Collective::neighbor_alltoall:
        return MPI_Ineighbor_alltoall(in, sends, sendtype, out, receives, recvtype, call.comm, request);
      default:
        return MPI_ERR_INTERN;
    }
  };
}

// The same for one with arrays, which the program may change after the call.
StartOperation start_with_arrays(CollectiveCall call) {
  struct Kept {
    KeptArrays arrays;
    std::vector<Type> types;
    std::vector<MPI_Datatype> sent, received;
  };
  const CommPosition position = position_in(call.comm);
  auto kept = std::make_shared<Kept>();
  kept->arrays.keep(&call, position);
  auto keep_all = [&](const MPI_Datatype** types, size_t many, std::vector<MPI_Datatype>* copies) {
    if (!*types) return;
    for (size_t i = 0; i < many; ++i) {
      kept->types.push_back(keep((*types)[i]));
      copies->push_back(kept->types.back()->get());
    }
    *types = copies->data();
  };
  keep_all(&call.sendtypes, position.neighbors.out.size(), &kept->sent);
  keep_all(&call.recvtypes, position.neighbors.in.size(), &kept->received);
  return [=, from = keep(call.sendtype), to = keep(call.recvtype)](MPI_Request* request) -> int {
    const MPI_Datatype sendtype = from->get(), recvtype = to->get();
    const int *sendcounts = call.sendcounts.as<int>(), *recvcounts = call.recvcounts.as<int>();
    (void)kept;  // what the call points to
    switch (call.function) {
      case Collective::reduce_scatter:
        return MPI_Ireduce_scatter(call.sendbuf, call.recvbuf, recvcounts, recvtype, call.op, call.comm,
                                   request);
      case Collective::alltoallv:
        return MPI_Ialltoallv(call.sendbuf, sendcounts, call.sdispls.as<int>(), sendtype, call.recvbuf,
                              recvcounts, call.rdispls.as<int>(), recvtype, call.comm, request);
      case Collective::neighbor_alltoallv:
        return MPI_Ineighbor_alltoallv(call.sendbuf, sendcounts, call.sdispls.as<int>(), sendtype,
                                       call.recvbuf, recvcounts, call.rdispls.as<int>(), recvtype, call.comm,
                                       request);
      case Collective::neighbor_alltoallw:
        return MPI_Ineighbor_alltoallw(call.sendbuf, sendcounts, call.sdispls.as<MPI_Aint>(), call.sendtypes,
                                       call.recvbuf, recvcounts, call.rdispls.as<MPI_Aint>(), call.recvtypes,
                                       call.comm, request);
      default:
        return MPI_ERR_INTERN;
    }
  };
}

CollectiveCall reduction(Collective function, const void* sendbuf, void* recvbuf, MPI_Count count,
                         MPI_Datatype datatype, MPI_Op op, MPI_Comm comm, int root = 0) {
  return {.function = function,
          .comm = comm,
          .sendbuf = sendbuf,
          .recvbuf = recvbuf,
          .sendcount = count,
          .recvcount = count,
          .sendtype = datatype,
          .recvtype = datatype,
          .op = op,
          .root = root};
}
CollectiveCall exchange(Collective function, const void* sendbuf, int sendcount, MPI_Datatype sendtype,
                        void* recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm) {
  return {.function = function,
          .comm = comm,
          .sendbuf = sendbuf,
          .recvbuf = recvbuf,
          .sendcount = sendcount,
          .recvcount = recvcount,
          .sendtype = sendtype,
          .recvtype = recvtype};
}
CollectiveCall exchange(Collective function, const void* sendbuf, const int* sendcounts, const int* sdispls,
                        MPI_Datatype sendtype, void* recvbuf, const int* recvcounts, const int* rdispls,
                        MPI_Datatype recvtype, MPI_Comm comm) {
  CollectiveCall call = exchange(function, sendbuf, 0, sendtype, recvbuf, 0, recvtype, comm);
  call.sendcounts = sendcounts;
  call.sdispls = sdispls;
  call.recvcounts = recvcounts;
  call.rdispls = rdispls;
  return call;
}

int enqueue_operation(MPI_Comm comm, StartOperation start) {
  Work works[] = {{std::move(start)}};
  return enqueue(comm, works);
}
int enqueue_collective(const CollectiveCall& call) {
  if (const auto result = enqueue_in_stream(call)) return *result;
  for (const void* buffer : {call.sendbuf, static_cast<const void*>(call.recvbuf)})
    (void)is_device(buffer);  // as classified()
  return enqueue_operation(call.comm, call.shape().has_arrays() ? start_with_arrays(call) : start_of(call));
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
  Work works[] = {send(buf, count, datatype, dest, tag, comm)};
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
  Work works[] = {receive(buf, count, datatype, source, tag, comm)};
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
  Work works[] = {receive(recvbuf, recvcount, recvtype, source, recvtag, comm),
                  send(sendbuf, sendcount, sendtype, dest, sendtag, comm)};
  return enqueue(comm, works, status);
}
FAIRLEAD_ENQUEUE(Start, (MPI_Request * request, MPI_Comm comm), (request, comm)) {
  if (*request == MPI_REQUEST_NULL)
    return raise_error(comm, MPI_ERR_REQUEST, "the start of MPI_REQUEST_NULL");
  auto start = [persistent = *request](MPI_Request* started) {
    *started = persistent;
    return MPI_Start(started);
  };
  if (const auto mine = stream_communicator(comm))
    if (clear_arrivals(*request, mine->stream->stream()) != fairlead::device::Error::none)
      return raise_error(comm, MPI_ERR_OTHER, "the start");
  return enqueue(comm, Work{start, nullptr, true}, request);
}
FAIRLEAD_ENQUEUE(Barrier, (MPI_Comm comm), (comm)) {
  return enqueue_collective({.function = Collective::barrier, .comm = comm});
}
FAIRLEAD_ENQUEUE(Bcast, (void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm),
                 (buffer, count, datatype, root, comm)) {
  return enqueue_collective({.function = Collective::bcast,
                             .comm = comm,
                             .sendbuf = buffer,
                             .recvbuf = buffer,
                             .sendcount = count,
                             .recvcount = count,
                             .sendtype = datatype,
                             .recvtype = datatype,
                             .root = root});
}
FAIRLEAD_ENQUEUE(Reduce,
                 (const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op, int root,
                  MPI_Comm comm),
                 (sendbuf, recvbuf, count, datatype, op, root, comm)) {
  return enqueue_collective(reduction(Collective::reduce, sendbuf, recvbuf, count, datatype, op, comm, root));
}
FAIRLEAD_ENQUEUE_AS(Allreduce_enqueue_c,
                    (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype, MPI_Op op,
                     MPI_Comm comm),
                    (sendbuf, recvbuf, count, datatype, op, comm)) {
  return enqueue_collective(reduction(Collective::allreduce, sendbuf, recvbuf, count, datatype, op, comm));
}
FAIRLEAD_ENQUEUE(Allreduce,
                 (const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm),
                 (sendbuf, recvbuf, count, datatype, op, comm)) {
  return do_Allreduce_enqueue_c(sendbuf, recvbuf, count, datatype, op, comm);
}
FAIRLEAD_ENQUEUE(Reduce_scatter,
                 (const void* sendbuf, void* recvbuf, const int recvcounts[], MPI_Datatype datatype,
                  MPI_Op op, MPI_Comm comm),
                 (sendbuf, recvbuf, recvcounts, datatype, op, comm)) {
  CollectiveCall call = reduction(Collective::reduce_scatter, sendbuf, recvbuf, 0, datatype, op, comm);
  call.recvcounts = recvcounts;
  return enqueue_collective(call);
}
FAIRLEAD_ENQUEUE(Reduce_scatter_block,
                 (const void* sendbuf, void* recvbuf, int recvcount, MPI_Datatype datatype, MPI_Op op,
                  MPI_Comm comm),
                 (sendbuf, recvbuf, recvcount, datatype, op, comm)) {
  return enqueue_collective(
      reduction(Collective::reduce_scatter_block, sendbuf, recvbuf, recvcount, datatype, op, comm));
}
FAIRLEAD_ENQUEUE(Allgather,
                 (const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm),
                 (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm)) {
  return enqueue_collective(
      exchange(Collective::allgather, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm));
}
FAIRLEAD_ENQUEUE(Alltoall,
                 (const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm),
                 (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm)) {
  return enqueue_collective(
      exchange(Collective::alltoall, sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm));
}
FAIRLEAD_ENQUEUE(Alltoallv,
                 (const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                  void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                  MPI_Comm comm),
                 (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm)) {
  return enqueue_collective(exchange(Collective::alltoallv, sendbuf, sendcounts, sdispls, sendtype, recvbuf,
                                     recvcounts, rdispls, recvtype, comm));
}
FAIRLEAD_ENQUEUE(Neighbor_allgather,
                 (const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm),
                 (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm)) {
  return enqueue_collective(exchange(Collective::neighbor_allgather, sendbuf, sendcount, sendtype, recvbuf,
                                     recvcount, recvtype, comm));
}
FAIRLEAD_ENQUEUE(Neighbor_alltoall,
                 (const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf, int recvcount,
                  MPI_Datatype recvtype, MPI_Comm comm),
                 (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm)) {
  return enqueue_collective(exchange(Collective::neighbor_alltoall, sendbuf, sendcount, sendtype, recvbuf,
                                     recvcount, recvtype, comm));
}
FAIRLEAD_ENQUEUE(Neighbor_alltoallv,
                 (const void* sendbuf, const int sendcounts[], const int sdispls[], MPI_Datatype sendtype,
                  void* recvbuf, const int recvcounts[], const int rdispls[], MPI_Datatype recvtype,
                  MPI_Comm comm),
                 (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm)) {
  return enqueue_collective(exchange(Collective::neighbor_alltoallv, sendbuf, sendcounts, sdispls, sendtype,
                                     recvbuf, recvcounts, rdispls, recvtype, comm));
}
FAIRLEAD_ENQUEUE(Neighbor_alltoallw,
                 (const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                  const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                  const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm),
                 (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm)) {
  return enqueue_collective({.function = Collective::neighbor_alltoallw,
                             .comm = comm,
                             .sendbuf = sendbuf,
                             .recvbuf = recvbuf,
                             .sendcounts = sendcounts,
                             .recvcounts = recvcounts,
                             .sdispls = sdispls,
                             .rdispls = rdispls,
                             .sendtypes = sendtypes,
                             .recvtypes = recvtypes});
}
