// SPDX-License-Identifier: Apache-2.0
//
// Whether MPI_COMM_WORLD exists, and a communicator of this process alone for calls of the host MPI that need
// one: MPI_COMM_SELF, or, in a program that uses only sessions, one that Fairlead creates.

#pragma once

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

namespace detail {
inline bool world_exists = false;
}
// Is there an MPI_COMM_WORLD whose ranks Fairlead handles? Not in programs that use sessions alone
// (mpi/job/sessions.h).
inline bool has_world() {
  return detail::world_exists;
}
// Call it when a job, or the first session of one without a world, begins.
inline void set_has_world(bool exists) {
  detail::world_exists = exists;
}

MPI_Comm comm_self();
// Sets the communicator to use while there is no MPI_COMM_WORLD.
void set_own_comm_self(MPI_Comm comm);

}  // namespace fairlead::mpi
