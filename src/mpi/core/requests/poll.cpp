// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/requests/poll.h"

#include <string>

#include "base/log.h"
#include "mpi/abi/real.h"
#include "mpi/core/interception.h"

namespace fairlead::mpi {

void detail::report_wait(const char* what, MPI_Comm comm, int seconds) {
  std::string ranks;
  if (comm != MPI_COMM_NULL) {
    int size = 0;
    PMPI_Comm_size(comm, &size);
    ranks = "; not arrived yet: some of the " + std::to_string(size) + " ranks";
  }
  log_line(LogLevel::warn, "%s has been waiting for %d s%s", what, seconds, ranks.c_str());
}

int poll_host(MPI_Request* request, MPI_Status* status, const char* what, MPI_Comm comm) {
  int complete = 0, result = MPI_SUCCESS;
  await_ranks(what, comm, [&] {
    result = real.Test(request, &complete, status);
    return complete || result != MPI_SUCCESS;
  });
  return noted(result);
}

}  // namespace fairlead::mpi
