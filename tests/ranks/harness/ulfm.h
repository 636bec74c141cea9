// SPDX-License-Identifier: Apache-2.0
//
// What tests of jobs that survive the failure of a process share: the functions of ULFM, which few headers
// declare, and the victims. A case that kills a rank is the last one of its launch.

#pragma once

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include "harness/harness.h"
#include "harness/mpi4.h"

namespace ranks::ulfm {

inline const auto Comm_revoke = mpi4::find<int(MPI_Comm)>("MPIX_Comm_revoke");
inline const auto Comm_is_revoked = mpi4::find<int(MPI_Comm, int*)>("MPIX_Comm_is_revoked");
// Fairlead has these two, too.
inline const auto Comm_shrink =
    mpi4::find_in_both<int(MPI_Comm, MPI_Comm*)>("MPIX_Comm_shrink", "PMPIX_Comm_shrink");
inline const auto Comm_agree = mpi4::find_in_both<int(MPI_Comm, int*)>("MPIX_Comm_agree", "PMPIX_Comm_agree");
inline const auto Comm_iagree = mpi4::find<int(MPI_Comm, int*, MPI_Request*)>("MPIX_Comm_iagree");
inline const auto Comm_failure_ack = mpi4::find<int(MPI_Comm)>("MPIX_Comm_failure_ack");
inline const auto Comm_failure_get_acked =
    mpi4::find<int(MPI_Comm, MPI_Group*)>("MPIX_Comm_failure_get_acked");
inline const auto Comm_get_failed = mpi4::find<int(MPI_Comm, MPI_Group*)>("MPIX_Comm_get_failed");

// Error classes of Open MPI 5.
constexpr int proc_failed = 75, proc_failed_pending = 76, revoked = 77;
inline bool is_failure(int result) {
  const int of = error_class(result);
  return of == proc_failed || of == proc_failed_pending || of == revoked;
}

// Then the case is skipped.
inline bool is_missing() {
#if defined(OPEN_MPI)
  if (!Comm_shrink || !Comm_get_failed) return skip("the MPI does not survive failures"), true;
  constexpr int attribute_of_ulfm = 12;  // in Open MPI 5
  const int* enabled = nullptr;
  int found = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, attribute_of_ulfm, &enabled, &found);
  if (!found || !*enabled) skip("the launcher was not told that the job survives: mpirun --with-ft ulfm");
  return !found || !*enabled;
#else
  skip("jobs of this MPI that survive failures are not handled");
  return true;
#endif
}

[[noreturn]] inline void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

// A duplicate of MPI_COMM_WORLD, all of whose members are there.
inline MPI_Comm everybody() {
  MPI_Comm comm = MPI_COMM_NULL;
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
  MUST(MPI_Barrier(comm));
  return comm;
}

// Returns when this rank's MPI knows that so many members have failed.
inline void await_failures(MPI_Comm comm, int failed) {
  for (int known = 0; known < failed; usleep(100)) {
    MPI_Group group;
    int ignored;
    MPI_Iprobe(0, 0, MPI_COMM_SELF, &ignored, MPI_STATUS_IGNORE);
    Comm_get_failed(comm, &group);
    MPI_Group_size(group, &known);
    MPI_Group_free(&group);
  }
}

// The survivors of `comm`, which is freed; they give the verdict.
inline MPI_Comm survivors_of(MPI_Comm* comm) {
  MPI_Comm made = MPI_COMM_NULL;
  if (!MUST(Comm_shrink(*comm, &made))) give_up("the survivors cannot find each other");
  MUST(MPI_Comm_free(comm));
  continue_with(made);
  return made;
}

}  // namespace ranks::ulfm
