// SPDX-License-Identifier: Apache-2.0
//
// A communicator of this process alone, for calls of the host MPI that need one: MPI_COMM_SELF, or, in a
// program that uses only sessions, one that Fairlead creates.

#pragma once

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

MPI_Comm comm_self();
// `exists`: MPI_COMM_SELF exists, that is, between MPI_Init and MPI_Finalize.
void use_world_comm_self(bool exists);
// Sets the communicator to use while MPI_COMM_SELF does not exist.
void set_own_comm_self(MPI_Comm comm);

}  // namespace fairlead::mpi
