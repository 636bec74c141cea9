// SPDX-License-Identifier: Apache-2.0
//
// What the generated collective functions (generated/collectives.cpp) do with a call. A call that passes only
// host memory announces itself in the communicator's collective slot and goes to the host MPI at once; any
// other call becomes an operation.

#pragma once

#include "mpi/coll/collective_operation.h"
#include "mpi/core/gather.h"
#include "mpi/core/interception.h"

namespace fairlead::mpi {

using RunInHost = std::function<int(const void* sendbuf, void* recvbuf)>;

namespace detail {
// True if only host memory is involved and the call has been announced in the collective slot, if there is
// one. Drops arguments that are not significant on this rank.
bool passes_by(CollectiveCall* call, bool blocking);
int run_collective(const CollectiveCall& call, const RunInHost& host);
int start_collective(const CollectiveCall& call, MPI_Request* request, const StartInHost& host);
}  // namespace detail

// The blocking form. `host` makes the call in the host MPI with the given buffers.
template <class Host>
int collective(CollectiveCall call, const Host& host) {
  if (!detail::passes_by(&call, true)) return detail::run_collective(call, std::ref(host));
  gather_before(call.comm);
  BlockingHostCall parked;
  return host(call.sendbuf, call.recvbuf);
}

// The nonblocking form.
template <class Host>
int start_collective(CollectiveCall call, MPI_Request* request, const Host& host) {
  if (!detail::passes_by(&call, false)) return detail::start_collective(call, request, host);
  return host(call, call.comm, call.sendbuf, call.recvbuf, request);
}

// The persistent form. `host` is the nonblocking function; each start calls it, on a communicator of its own.
int init_collective(CollectiveCall call, MPI_Request* request, const StartInHost& host);

}  // namespace fairlead::mpi
