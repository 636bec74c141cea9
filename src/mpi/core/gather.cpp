// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/gather.h"

#include "mpi/core/hooks.h"

namespace fairlead::mpi::detail {
namespace {

// A group that this frees; null if the host MPI has refused to make it.
struct Group {
  MPI_Group handle = MPI_GROUP_NULL;
  Group() = default;
  ~Group() {
    if (handle != MPI_GROUP_NULL) PMPI_Group_free(&handle);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  explicit operator bool() const { return handle != MPI_GROUP_NULL; }
};

void gather(const Group& members, MPI_Comm comm = MPI_COMM_NULL) {
  if (!members) return;
  for (const Hooks& hooks : all_hooks())
    if (hooks.gather) hooks.gather(members.handle, comm);
}

bool is_inter(MPI_Comm comm) {
  int inter = 0;
  PMPI_Comm_test_inter(comm, &inter);
  return inter;
}

}  // namespace

void gather_comm(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  Group local;
  PMPI_Comm_group(comm, &local.handle);
  if (!local || !is_inter(comm)) return gather(local, comm);
  // A barrier of it would await the other group alone. The orders of the members on both sides differ by a
  // rotation, which is all the same to those who meet.
  Group remote, both;
  PMPI_Comm_remote_group(comm, &remote.handle);
  if (remote) PMPI_Group_union(local.handle, remote.handle, &both.handle);
  gather(both);
}

void gather_file(MPI_File file) {
  Group members;
  if (file != MPI_FILE_NULL) PMPI_File_get_group(file, &members.handle);
  gather(members);
}

void gather_window(MPI_Win win) {
  Group members;
  if (win != MPI_WIN_NULL) PMPI_Win_get_group(win, &members.handle);
  gather(members);
}

void gather_group(MPI_Group group) {
  Group members;
  if (group != MPI_GROUP_NULL) PMPI_Group_union(group, group, &members.handle);
  gather(members);
}

// The others of a group know of the leaders alone that theirs has come. So each group meets, then the
// leaders, and then each group again, when both are complete.
void gather_leaders_of_groups(MPI_Group group, int local_leader, MPI_Group others, int remote_leader) {
  int own = 0, count = 0;
  if (group == MPI_GROUP_NULL || PMPI_Group_rank(group, &own) != MPI_SUCCESS || own == MPI_UNDEFINED) return;
  gather_group(group);
  if (own == local_leader && others != MPI_GROUP_NULL) PMPI_Group_size(others, &count);
  if (remote_leader >= 0 && remote_leader < count) {
    Group self, leader, leaders;
    PMPI_Group_incl(group, 1, &own, &self.handle);
    PMPI_Group_incl(others, 1, &remote_leader, &leader.handle);
    if (self && leader) PMPI_Group_union(self.handle, leader.handle, &leaders.handle);
    gather(leaders);
  }
  gather_group(group);
}

void gather_leaders_of_comms(MPI_Comm local_comm, int local_leader, MPI_Comm peer_comm, int remote_leader) {
  Group local, peers;
  if (local_comm != MPI_COMM_NULL) PMPI_Comm_group(local_comm, &local.handle);
  int own = 0;
  if (!local || PMPI_Group_rank(local.handle, &own) != MPI_SUCCESS) return;
  if (own == local_leader && peer_comm != MPI_COMM_NULL)
    is_inter(peer_comm) ? PMPI_Comm_remote_group(peer_comm, &peers.handle)
                        : PMPI_Comm_group(peer_comm, &peers.handle);
  gather_leaders_of_groups(local.handle, local_leader, peers.handle, remote_leader);
}

}  // namespace fairlead::mpi::detail
