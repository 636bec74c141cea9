// SPDX-License-Identifier: Apache-2.0
//
// Waits in which a thread polls and makes progress (M7). Every FAIRLEAD_STALL_REPORT_S seconds the log says
// `what` still waits for ranks of `comm`: the host MPI does not tell which of them are late. Without `comm`
// it names no ranks; without `what`, which the program's own messages lack, the wait is not reported.

#pragma once

#include "base/report_timer.h"
#include "mpi/core/engine.h"

namespace fairlead::mpi {

namespace detail {
void report_wait(const char* what, MPI_Comm comm, int seconds);
}

// Returns when `done` has returned true.
template <class Done>
void await_ranks(const char* what, MPI_Comm comm, const Done& done) {
  if (done()) return;
  ReportTimer report_timer;
  for (Backoff backoff;; backoff.pause()) {
    engine().progress();
    if (done()) return;
    if (const int seconds = what ? report_timer.due() : 0) detail::report_wait(what, comm, seconds);
  }
}

// Completes a request of the host MPI.
int poll_host(MPI_Request* request, MPI_Status* status = MPI_STATUS_IGNORE, const char* what = nullptr,
              MPI_Comm comm = MPI_COMM_NULL);

// Completes the nonblocking operation of the host MPI that `start` starts.
template <class Start>
int poll_host(const char* what, MPI_Comm comm, const Start& start) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int result = start(&request);
  return result == MPI_SUCCESS ? poll_host(&request, MPI_STATUS_IGNORE, what, comm) : result;
}

}  // namespace fairlead::mpi
