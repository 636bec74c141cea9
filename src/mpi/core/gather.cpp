// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/gather.h"

#include "mpi/core/hooks.h"

namespace fairlead::mpi::detail {
namespace {

// Frees the group.
void gather(MPI_Group members, MPI_Comm comm = MPI_COMM_NULL) {
  for (const Hooks& hooks : all_hooks())
    if (hooks.gather) hooks.gather(members, comm);
  PMPI_Group_free(&members);
}

bool is_inter(MPI_Comm comm) {
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  return inter;
}

}  // namespace

void gather_comm(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  MPI_Group members;
  PMPI_Comm_group(comm, &members);
  if (is_inter(comm)) {
    MPI_Group local = members, remote;
    PMPI_Comm_remote_group(comm, &remote);
    PMPI_Group_union(local, remote, &members);
    PMPI_Group_free(&remote);
    PMPI_Group_free(&local);
  }
  gather(members, comm);
}

void gather_file(MPI_File file) {
  MPI_Group members;
  if (file != MPI_FILE_NULL && PMPI_File_get_group(file, &members) == MPI_SUCCESS) gather(members);
}

void gather_window(MPI_Win win) {
  MPI_Group members;
  if (win != MPI_WIN_NULL && PMPI_Win_get_group(win, &members) == MPI_SUCCESS) gather(members);
}

void gather_groups(MPI_Group group, MPI_Group other) {
  MPI_Group members;
  if (other == MPI_GROUP_NULL) other = MPI_GROUP_EMPTY;
  if (group != MPI_GROUP_NULL && PMPI_Group_union(group, other, &members) == MPI_SUCCESS) gather(members);
}

// The others of a group know of the leaders alone that theirs has come. So each group meets, then the
// leaders, and then each group again, when both are complete.
void gather_leaders(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader) {
  if (local_comm == MPI_COMM_NULL) return;
  gather_comm(local_comm);
  int own = 0;
  PMPI_Comm_rank(local_comm, &own);
  if (own == local_leader && peer_comm != MPI_COMM_NULL) {
    MPI_Group peers, self, leader;
    is_inter(peer_comm) ? PMPI_Comm_remote_group(peer_comm, &peers) : PMPI_Comm_group(peer_comm, &peers);
    PMPI_Comm_group(MPI_COMM_SELF, &self);
    int count = 0;
    PMPI_Group_size(peers, &count);
    if (remote_leader >= 0 && remote_leader < count) {
      PMPI_Group_incl(peers, 1, &remote_leader, &leader);
      gather_groups(self, leader);
      PMPI_Group_free(&leader);
    }
    PMPI_Group_free(&self);
    PMPI_Group_free(&peers);
  }
  gather_comm(local_comm);
}

}  // namespace fairlead::mpi::detail
