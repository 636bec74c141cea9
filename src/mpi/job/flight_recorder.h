// SPDX-License-Identifier: Apache-2.0
//
// The flight recorder of the job (src/flight): its ranks on this node share one file, from MPI_Init to the
// end of the process. A thread of the first of them watches the others, and reports when none goes on.

#pragma once

#include <cstdint>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// A descriptor of a file of `fairlead run`, which reports when a rank has died; -1 on another node than its
// own.
enum class FileOfLauncher { flight, parts };
int file_of_launcher(FileOfLauncher which);

// All ranks call it in MPI_Init. `node`: the ranks that share memory. `job`: a number of this job alone.
void open_flight_recorder(MPI_Comm node, uint64_t job);
// MPI_Finalize has returned.
void close_flight_recorder();

}  // namespace fairlead::mpi
