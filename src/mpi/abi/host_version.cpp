// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/host_version.h"

#include <cstring>

#include "mpi/abi/real.h"

#pragma weak PMPI_Get_library_version  // as in host_mpi.h

namespace fairlead::mpi {

std::string host_version() {
  if (!available(Function::Init) || !PMPI_Get_library_version) return {};
  static char version[64 * 1024];  // room for the version of any MPI, not only the one at build time
  int length = 0;
  if (PMPI_Get_library_version(version, &length) != MPI_SUCCESS) return {};
  return {version, std::strcspn(version, "\n")};
}

}  // namespace fairlead::mpi
