// SPDX-License-Identifier: Apache-2.0
//
// The calls of collectives in the host MPI.

#pragma once

#include "mpi/coll/collective_call.h"
#include "mpi/core/gather.h"
#include "mpi/core/interception.h"

namespace fairlead::mpi {

// Calls the host MPI's blocking function, on this communicator, with these buffers and all other arguments of
// the call.
int call_host(const CollectiveCall& call, MPI_Comm comm, const void* sendbuf, void* recvbuf);
// The nonblocking one.
int call_host(const CollectiveCall& call, MPI_Comm comm, const void* sendbuf, void* recvbuf,
              MPI_Request* request);
// The blocking one, in a job with GPUs.
inline int block_in_host(const CollectiveCall& call, MPI_Comm comm, const void* sendbuf, void* recvbuf) {
  gather_before(comm);
  BlockingHostCall blocking_call;
  return call_host(call, comm, sendbuf, recvbuf);
}
// The persistent one.
int init_in_host(const CollectiveCall& call, MPI_Info info, MPI_Request* request);

}  // namespace fairlead::mpi
