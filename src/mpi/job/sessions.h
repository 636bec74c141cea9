// SPDX-License-Identifier: Apache-2.0
//
// Sessions (MPI 4.1, 11.3): MPI without MPI_Init, or beside it. They begin and end on each rank alone, so
// that ranks cannot agree on anything then. While there is a job of MPI_Init, it serves the communicators of
// sessions as all others. While there is none, each rank with a session serves its device memory by itself:
// no other rank is known to share its node, so messages and collectives go through host memory, which their
// peers need not know of, and the targets of windows are served.

#pragma once

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// While the program is in MPI_Session_init and MPI_Session_finalize. May be nested: the Fortran functions of
// the host MPI may lead through the C functions.
class SessionInit {
 public:
  explicit SessionInit(MPI_Info info);
  ~SessionInit();
  SessionInit(const SessionInit&) = delete;
  SessionInit& operator=(const SessionInit&) = delete;
  // The host MPI has made the session.
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
// In MPI_Init, with any rank that has a GPU: the job serves the sessions of this rank from now on.
void hand_sessions_to_job();
// In MPI_Init, without: there is nothing to serve.
void leave_sessions_unserved();
// In MPI_Finalize, when the job is closed.
void take_sessions_from_job();

}  // namespace fairlead::mpi
