// SPDX-License-Identifier: Apache-2.0
//
// MPI sessions (MPI 4.1, 11.3): MPI without MPI_Init, or beside it. A session begins and ends on each rank
// alone, so the ranks cannot agree on anything then. While there is a job of MPI_Init, it serves the
// communicators of sessions like all others. While there is none, each rank with a session serves its device
// memory by itself. No other rank is known to share its node, so messages and collectives are staged through
// host memory, which their peers need not know, and windows have active-message targets.

#pragma once

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// Exist while the program is in MPI_Session_init or MPI_Session_finalize. They may be nested, because the
// host MPI's Fortran functions may call its C functions.
class SessionInit {
 public:
  explicit SessionInit(MPI_Info info);
  ~SessionInit();
  SessionInit(const SessionInit&) = delete;
  SessionInit& operator=(const SessionInit&) = delete;
  // Call after the host MPI has made the session.
  void succeed();

 private:
  MPI_Info info_;
};

class SessionFinalize {
 public:
  SessionFinalize();
  ~SessionFinalize();
  SessionFinalize(const SessionFinalize&) = delete;
  SessionFinalize& operator=(const SessionFinalize&) = delete;
};

bool has_sessions();
// Called in MPI_Init if any rank has a GPU: from now on the job serves the sessions of this rank.
void hand_sessions_to_job();
// Called in MPI_Init if no rank has a GPU or a session: there is nothing to serve.
void leave_sessions_unserved();
// Called in MPI_Finalize when the job is closed: if sessions are open, this rank serves them again.
void take_sessions_from_job();

}  // namespace fairlead::mpi
