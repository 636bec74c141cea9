// SPDX-License-Identifier: Apache-2.0
//
// Combines what the ranks recorded into one report and one trace of the job: FAIRLEAD_STATS,
// FAIRLEAD_TRACE. start_observing() and stop_observing() are collective over
// MPI_COMM_WORLD and call only the host MPI.

#pragma once

#include <cstdint>
#include <string>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// Call in MPI_Init, once the log has its rank. `node`: the ranks that share memory. `job`: a number of this
// job alone.
void start_observing(MPI_Comm node, uint64_t job);
// Call in MPI_Finalize, when all device messages are complete.
void stop_observing();

// What this process has counted so far. May be called at any time.
std::string statistics_as_json();

}  // namespace fairlead::mpi
