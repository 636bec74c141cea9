// SPDX-License-Identifier: Apache-2.0
//
// A thread that makes progress while there are served windows, so that targets answer others. Where the host
// MPI gives MPI_THREAD_MULTIPLE it does so while this rank sits in a host call that cannot be polled; with
// FAIRLEAD_RMA_THREAD, for which MPI_Init asks for that, always: also while the program computes.

#pragma once

namespace fairlead::mpi {

// Is the thread wanted always? MPI_Init asks the host MPI for all threads then.
bool service_thread_wanted();
// Of the host MPI: does it give what the thread needs? Says so where it is wanted and cannot be had.
void allow_service_thread(bool threads);
// There is one served window more, or fewer.
void note_active_message_window(int change);
// One thread more, or fewer, is blocked in the host MPI.
void note_blocked_thread(int change);
// Before the host MPI's MPI_Finalize, which is one thread's alone (MPICH then drops its locks). Until it is
// allowed again there is none.
void stop_service_thread();

}  // namespace fairlead::mpi
