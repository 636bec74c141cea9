// SPDX-License-Identifier: Apache-2.0
//
// The traces of all ranks become one file, by one clock. All functions are collective over `comm`, which
// spans the job and which nothing else uses; they call the host MPI only.

#pragma once

#include "mpi/abi/host_mpi.h"
#include "observe/clock.h"
#include "observe/recorder.h"

namespace fairlead::mpi {

// How far the first rank's clock is ahead of this one. Ranks that share a clock with it need not ask.
observe::ClockReading compare_clocks(MPI_Comm comm);

// `clock`: this rank's, into the first rank's. `start`: the first rank's, of the trace.
void write_trace(MPI_Comm comm, const char* path, const observe::ClockFit& clock, uint64_t start,
                 observe::NameOf name_of);

}  // namespace fairlead::mpi
