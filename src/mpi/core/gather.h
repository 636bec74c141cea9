// SPDX-License-Identifier: Apache-2.0
//
// Synchronizes ranks before a call that only the host MPI can complete. A rank that is blocked in such a call
// answers no messages of an active-message window, and other ranks may need its answer before they reach the
// same call: MPI_Win_unlock of one rank, MPI_Barrier of all. Therefore those of the ranks that make the call
// which belong to such a window first meet, in a way that polls. If all ranks of a window have
// MPI_THREAD_MULTIPLE, they do without: one thread may create or free a window before the other ranks have
// seen it, and the progress thread answers for blocked threads.

#pragma once

#include <atomic>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

namespace detail {
// Number of this rank's windows that need it.
inline std::atomic<int> gathering{0};
inline bool gathers() {
  return gathering.load(std::memory_order_relaxed) > 0;
}
void gather_comm(MPI_Comm comm);
void gather_file(MPI_File file);
void gather_window(MPI_Win win);
void gather_group(MPI_Group group);
void gather_leaders_of_comms(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader);
void gather_leaders_of_groups(MPI_Group group, int local_leader, MPI_Group others, int remote_leader);
}  // namespace detail

// The call is collective over what is named here; over both groups of an inter-communicator. Nothing is done
// for null handles.
inline void gather_before(MPI_Comm comm) {
  if (detail::gathers()) [[unlikely]]
    detail::gather_comm(comm);
}
inline void gather_file_before(MPI_File file) {
  if (detail::gathers()) [[unlikely]]
    detail::gather_file(file);
}
inline void gather_window_before(MPI_Win win) {
  if (detail::gathers()) [[unlikely]]
    detail::gather_window(win);
}
inline void gather_group_before(MPI_Group group) {
  if (detail::gathers()) [[unlikely]]
    detail::gather_group(group);
}
// The arguments of MPI_Intercomm_create and MPI_Intercomm_create_from_groups; the last two are the leader's
// alone.
inline void gather_leaders_of_comms_before(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm,
                                           int remote_leader) {
  if (detail::gathers()) [[unlikely]]
    detail::gather_leaders_of_comms(local_comm, local_leader, peer_comm, remote_leader);
}
inline void gather_leaders_of_groups_before(MPI_Group group, int local_leader, MPI_Group others,
                                            int remote_leader) {
  if (detail::gathers()) [[unlikely]]
    detail::gather_leaders_of_groups(group, local_leader, others, remote_leader);
}

}  // namespace fairlead::mpi
