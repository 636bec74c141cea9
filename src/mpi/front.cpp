// SPDX-License-Identifier: Apache-2.0

#include "mpi/front.h"

#include "base/log.h"
#include "mpi/engine.h"

namespace fairlead::mpi {

bool detail::watching = false;

namespace {

constexpr const char* unhandled =
    "device memory is not handled by this function yet; copy the buffer to host memory first";

}  // namespace

int refuse(Function function, MPI_Comm comm) {
  log_line(LogLevel::error, "%s: %s", to_string(function), unhandled);
  PMPI_Comm_call_errhandler(comm, MPI_ERR_BUFFER);
  return MPI_ERR_BUFFER;
}

int refuse_window(Function function, MPI_Win win) {
  log_line(LogLevel::error, "%s: %s", to_string(function), unhandled);
  PMPI_Win_call_errhandler(win, MPI_ERR_BUFFER);
  return MPI_ERR_BUFFER;
}

int refuse_file(Function function, MPI_File file) {
  log_line(LogLevel::error, "%s: %s", to_string(function), unhandled);
  PMPI_File_call_errhandler(file, MPI_ERR_BUFFER);
  return MPI_ERR_BUFFER;
}

thread_local int errors_noted = 0;

int noted(int result) {
  if (result == MPI_SUCCESS) return result;
  ++errors_noted;
  if (watching() && engine().node()) ++engine().node()->mine().failed_receives;
  return result;
}

Parked::Parked() {
  if (!watching() || !engine().busy()) return;
  engine().park();
  raised_ = true;
}

Parked::~Parked() {
  if (raised_) engine().unpark();
}

}  // namespace fairlead::mpi
