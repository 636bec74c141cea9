// SPDX-License-Identifier: Apache-2.0
//
// A thread that makes progress while windows with active-message targets exist, so that this rank answers
// other ranks. If the host MPI provides MPI_THREAD_MULTIPLE, the thread runs while this rank is blocked in a
// host call that Fairlead cannot poll. With FAIRLEAD_RMA_THREAD, MPI_Init requests MPI_THREAD_MULTIPLE and
// the thread runs always, also while the program computes.

#pragma once

namespace fairlead::mpi {

// Shall the thread run always? If so, MPI_Init requests MPI_THREAD_MULTIPLE from the host MPI.
bool service_thread_wanted();
// `threads`: the host MPI provides MPI_THREAD_MULTIPLE. Logs a warning if FAIRLEAD_RMA_THREAD needs that and
// the host MPI does not provide it.
void allow_service_thread(bool threads);
// Adds `change` to the number of windows with active-message targets.
void note_active_message_window(int change);
// Adds `change` to the number of threads that are blocked in the host MPI.
void note_blocked_thread(int change);
// Ends the thread before the host MPI's MPI_Finalize, which only one thread may be in (MPICH then drops its
// locks). There is no thread until allow_service_thread() permits it again.
void stop_service_thread();

}  // namespace fairlead::mpi
