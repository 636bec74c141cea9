// SPDX-License-Identifier: Apache-2.0
//
// What the generated collective functions (generated/collectives.cpp) do with a call. In a job with GPUs, a
// call that passes only host memory announces itself in the communicator's collective slot and goes to the
// host MPI at once; any other call becomes an operation.

#pragma once

#include "mpi/abi/real.h"
#include "mpi/coll/collective_call.h"
#include "mpi/core/record.h"

namespace fairlead::mpi {

namespace recorded {
int collective(const CallRecord& record, CollectiveCall call);
int start_collective(const CallRecord& record, CollectiveCall call, MPI_Request* request);
int init_collective(CollectiveCall call, MPI_Info info, MPI_Request* request);

inline CallArguments arguments_of(const CollectiveCall& call, MPI_Request* started = nullptr) {
  const bool sends = call.sendtype != MPI_DATATYPE_NULL;
  return {.kind = flight::Kind::collective,
          .comm = call.comm,
          .count = sends ? call.sendcount : call.recvcount,
          .datatype = sends ? call.sendtype : call.recvtype,
          .to = call.shape().is_rooted() ? call.root : flight::absent,
          .op = call.op,
          .started = started};
}
}  // namespace recorded

[[gnu::always_inline]] inline int collective(Function function, const CollectiveCall& call) {
  const CallRecord record(function, recorded::arguments_of(call));
  return recorded::collective(record, call);
}
[[gnu::always_inline]] inline int start_collective(Function function, const CollectiveCall& call,
                                                   MPI_Request* request) {
  const CallRecord record(function, recorded::arguments_of(call, request));
  return recorded::start_collective(record, call, request);
}
// Each start is a nonblocking call, on a communicator of its own.
[[gnu::always_inline]] inline int init_collective(Function function, const CollectiveCall& call,
                                                  MPI_Info info, MPI_Request* request) {
  const CallRecord record(function, recorded::arguments_of(call, request));
  return recorded::init_collective(call, info, request);
}

}  // namespace fairlead::mpi
