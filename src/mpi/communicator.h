// SPDX-License-Identifier: Apache-2.0
//
// Which process a rank of a communicator is. Found without communication at the first device message on
// the communicator, and kept as an attribute of it, so that it goes when the communicator goes.

#pragma once

#include "mpi/host_mpi.h"

namespace fairlead::mpi {

// Rank in MPI_COMM_WORLD of `rank` of `comm`; -1 when it is in another job, or unknown: messages to it travel
// plain. (MPI_PROC_NULL and wildcards give -1.)
int rank_in_world(MPI_Comm comm, int rank);

// In MPI_Init and MPI_Finalize.
void open_communicators();
void close_communicators();

}  // namespace fairlead::mpi
