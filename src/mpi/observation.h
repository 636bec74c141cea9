// SPDX-License-Identifier: Apache-2.0
//
// What the ranks recorded becomes one report of the job: FAIRLEAD_STATS and FAIRLEAD_STATS_FILE. Both
// functions are collective over MPI_COMM_WORLD, on which they call the host MPI only.

#pragma once

namespace fairlead::mpi {

// MPI_Init, once the log knows its rank.
void start_observing();
// MPI_Finalize, when all device messages are over.
void stop_observing();

}  // namespace fairlead::mpi
