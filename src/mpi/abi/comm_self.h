// SPDX-License-Identifier: Apache-2.0
//
// A communicator of this process alone, for calls of the host MPI that want one: MPI_COMM_SELF, or, in a
// program that uses sessions only, one that Fairlead made.

#pragma once

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

MPI_Comm comm_self();
// Does MPI_COMM_SELF exist, between MPI_Init and MPI_Finalize?
void use_world_comm_self(bool exists);
// The communicator to use while it does not.
void set_own_comm_self(MPI_Comm comm);

}  // namespace fairlead::mpi
