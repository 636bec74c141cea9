// SPDX-License-Identifier: Apache-2.0
//
// What the generated collective functions (generated/collectives.cpp) do with a call. In a job with GPUs, a
// call that passes only host memory announces itself in the communicator's collective slot and goes to the
// host MPI at once; any other call becomes an operation.

#pragma once

#include "mpi/abi/real.h"
#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

int collective(Function function, CollectiveCall call);
int start_collective(Function function, CollectiveCall call, MPI_Request* request);
// Each start is a nonblocking call, on a communicator of its own.
int init_collective(Function function, CollectiveCall call, MPI_Info info, MPI_Request* request);

}  // namespace fairlead::mpi
