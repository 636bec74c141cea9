// SPDX-License-Identifier: Apache-2.0
//
// Synchronizes ranks before a call that only the host MPI can complete. A rank that is blocked in such a call
// answers no messages of an active-message window, and other ranks may need its answer before they reach the
// same call: MPI_Win_unlock of one rank, MPI_Barrier of all. Therefore all ranks that make the call, those of
// the communicator or of a group, first meet in a polled barrier, if all of them belong to such a window. If
// several threads share MPI, the ranks do without the barrier: one thread may create or free a window before
// the other ranks have seen it, and the progress thread answers for blocked threads.

#pragma once

#include <atomic>

#include "mpi/core/hooks.h"

namespace fairlead::mpi {

namespace detail {
// Number of this rank's windows that need the barrier.
inline std::atomic<int> gathering{0};
}  // namespace detail

inline void gather_before(MPI_Comm comm, MPI_Group group = MPI_GROUP_NULL) {
  if (detail::gathering.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  for (const Hooks& hooks : all_hooks())
    if (hooks.gather) hooks.gather(comm, group);
}
// For a call that only the members of the group make.
inline void gather_group_before(MPI_Group group) {
  gather_before(MPI_COMM_NULL, group);
}

}  // namespace fairlead::mpi
