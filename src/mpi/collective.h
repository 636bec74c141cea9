// SPDX-License-Identifier: Apache-2.0
//
// What the generated collective functions do with a call (generated/collectives.cpp): calls that bring host
// memory say so to the communicator's meeting and go to the host MPI at once, the others become operations.

#pragma once

#include "mpi/collective_operation.h"
#include "mpi/front.h"

namespace fairlead::mpi {

using RunInHost = std::function<int(const void* sendbuf, void* recvbuf)>;

namespace detail {
int run_collective(CollectiveCall call, const RunInHost& host);
int start_collective(CollectiveCall call, MPI_Request* request, const StartInHost& host);
int init_collective(CollectiveCall call, MPI_Request* request, const StartInHost& host);
}  // namespace detail

// The blocking form. `host` calls it in the host MPI with these buffers.
template <class Host>
int collective(const CollectiveCall& call, const Host& host) {
  return detail::run_collective(call, std::ref(host));
}

// The nonblocking form.
template <class Host>
int start_collective(const CollectiveCall& call, MPI_Request* request, const Host& host) {
  return detail::start_collective(call, request, host);
}

// The persistent form.
template <class Host>
int init_collective(const CollectiveCall& call, MPI_Request* request, const Host& host) {
  return detail::init_collective(call, request, host);
}

}  // namespace fairlead::mpi
