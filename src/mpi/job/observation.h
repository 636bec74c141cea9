// SPDX-License-Identifier: Apache-2.0
//
// What the ranks recorded becomes one report and one trace of the job: FAIRLEAD_STATS, FAIRLEAD_STATS_FILE
// and FAIRLEAD_TRACE. Both functions are collective over MPI_COMM_WORLD, and call the host MPI only.

#pragma once

#include <string>

namespace fairlead::mpi {

// MPI_Init, once the log knows its rank.
void start_observing();
// MPI_Finalize, when all device messages are over.
void stop_observing();

// What this process has counted so far, at any time.
std::string statistics_as_json();

}  // namespace fairlead::mpi
