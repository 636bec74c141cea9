// SPDX-License-Identifier: Apache-2.0
//
// Failed processes, as the host MPI tells of them (ULFM: user-level failure mitigation). In a job that
// survives failures, a process may die and the others continue: their calls return errors, they make a
// communicator without the dead process, and go on with that. Open MPI 5 has such jobs (mpirun --with-ft
// ulfm).
//
// Fairlead waits for shared memory and GPUs, and by MPI_Request_get_status and MPI_Iprobe, so it has to ask
// for failures (Failures): quirk failure_in_completion_only. In all other jobs a process that dies ends the
// job, and nothing here asks the host MPI anything.

#pragma once

#include <map>
#include <vector>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// The error classes of Open MPI 5, which the headers of Open MPI 4 lack.
constexpr int proc_failed = 75, proc_failed_pending = 76, comm_revoked = 77;
// Does this code tell of a failed process or a revoked communicator?
bool is_failure(int code);

namespace detail {
extern constinit bool survives_failures;
}
// Does this job go on if a process fails? All ranks get the same answer.
inline bool survives_failures() {
  return detail::survives_failures;
}
// MPI_Init calls this before Fairlead makes a communicator; MPI_Finalize calls the other when it has freed
// all.
void open_failures();
void close_failures();

// Every communicator that Fairlead makes for itself goes through adopt(), and ends by free_own(). Errors on
// it return to Fairlead, so that the failure of a process does not end the job; and messages from any rank go
// on after a failure. Passes on `result`, that of the call that made it. MPI_COMM_NULL is allowed.
int adopt(int result, MPI_Comm* made);
void free_own(MPI_Comm* comm);

// A barrier of the processes that have not failed, if the job survives failures. Else an ordinary one.
int start_barrier(MPI_Comm comm, MPI_Request* request);
int barrier_of_living(MPI_Comm comm);
// Replaces a communicator of Fairlead's own by one of the processes that have not failed. Collective.
void shrink_to_living(MPI_Comm* comm);

// Has the communicator been revoked, as far as this process knows?
bool is_revoked(MPI_Comm comm);

// What the host MPI knows at the moment of construction. Asks about each communicator once. No call of it
// calls an error handler. For jobs that survive failures only.
class Failures {
 public:
  Failures();
  ~Failures();
  Failures(const Failures&) = delete;
  Failures& operator=(const Failures&) = delete;

  bool any() const { return !failed_in_world_.empty(); }
  bool has_failed(int world_rank) const;
  // In an inter-communicator, `rank` counts in the remote group.
  bool has_failed(MPI_Comm comm, int rank) { return contains(of(comm).failed, rank); }
  // The error of an operation with this peer, or with MPI_ANY_SOURCE; MPI_SUCCESS: it may go on.
  int of_peer(MPI_Comm comm, int rank);
  // The same for an operation that needs all members.
  int of_members(MPI_Comm comm);

 private:
  struct Facts {
    bool revoked = false, unacknowledged = false;
    std::vector<int> failed;
  };
  static bool contains(const std::vector<int>& ranks, int rank);
  std::vector<int> failed_in(MPI_Group group) const;
  const Facts& of(MPI_Comm comm);

  MPI_Group failed_ = MPI_GROUP_NULL;
  std::vector<int> failed_in_world_;
  std::map<MPI_Comm, Facts> known_;
};

// The error to raise for a collective that has ended with `error`: the failure behind it, if there is one.
int error_of_collective(MPI_Comm comm, int error);

}  // namespace fairlead::mpi
