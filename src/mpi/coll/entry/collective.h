// SPDX-License-Identifier: Apache-2.0
//
// What the generated collective functions (generated/collectives.cpp) do with a call. A call that passes only
// host memory announces itself in the communicator's collective slot and goes to the host MPI at once; any
// other call becomes an operation.

#pragma once

#include "mpi/coll/collective_operation.h"

namespace fairlead::mpi {

namespace detail {
// Returns null if the call goes to the host MPI at once: only host memory is involved, and the call has been
// announced in the collective slot, if there is one. Otherwise returns the state of the communicator. Drops
// arguments that are not significant on this rank.
std::shared_ptr<CommunicatorState> intercept(CollectiveCall* call, bool blocking);
int run(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call, HostForm host);
int start(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call, MPI_Request* request,
          HostForm host);
}  // namespace detail

// The blocking form. `host` makes the call in the host MPI with the given buffers.
template <class Host>
int collective(CollectiveCall call, const Host& host) {
  const auto blocking = blocking_form(host);
  if (auto state = detail::intercept(&call, true)) return detail::run(std::move(state), call, blocking);
  return blocking(call, call.comm, call.sendbuf, call.recvbuf, nullptr);
}

// The nonblocking form.
template <class Host>
int start_collective(CollectiveCall call, MPI_Request* request, const Host& host) {
  if (auto state = detail::intercept(&call, false))
    return detail::start(std::move(state), call, request, host);
  return host(call, call.comm, call.sendbuf, call.recvbuf, request);
}

// The persistent form. `host` is the nonblocking function; each start calls it, on a communicator of its own.
int init_collective(CollectiveCall call, MPI_Request* request, const HostForm& host);

}  // namespace fairlead::mpi
