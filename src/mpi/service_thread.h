// SPDX-License-Identifier: Apache-2.0
//
// FAIRLEAD_RMA_THREAD: a thread that makes progress while there are served windows, so that targets answer
// while their program computes or sits in the host MPI. It calls the host MPI, which must give
// MPI_THREAD_MULTIPLE; that is asked for in MPI_Init.

#pragma once

namespace fairlead::mpi {

// Is the thread wanted? MPI_Init asks the host MPI for all threads then.
bool service_thread_wanted();
// Of the host MPI: does it give what the thread needs? Says so where it does not.
void allow_service_thread(bool threads);
// There is one served window more, or fewer.
void note_served_window(int change);
// In MPI_Finalize.
void stop_service_thread();

}  // namespace fairlead::mpi
