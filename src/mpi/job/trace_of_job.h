// SPDX-License-Identifier: Apache-2.0
//
// Writes the traces of all ranks to one file, with the times of one clock. All functions are collective over
// `comm`, which contains all ranks of the job and which nothing else uses. They call only the host MPI.

#pragma once

#include "mpi/abi/host_mpi.h"
#include "observe/clock.h"
#include "observe/json/provenance.h"
#include "observe/recorder.h"

namespace fairlead::mpi {

// Measures how far rank 0's clock is ahead of this rank's. Ranks that share a clock with rank 0 exchange no
// times with it.
observe::ClockReading compare_clocks(MPI_Comm comm);

// `clock` converts this rank's times to rank 0's. `start` is the start of the trace by rank 0's clock.
// `provenance` is called on rank 0, which writes.
void write_trace(MPI_Comm comm, const char* path, const observe::ClockFit& clock, uint64_t start,
                 observe::Provenance (*provenance)(), observe::NameOf name_of);

}  // namespace fairlead::mpi
