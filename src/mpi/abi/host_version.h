// SPDX-License-Identifier: Apache-2.0
//
// The MPI ABI for which this library is built, and the version that the host MPI reports.

#pragma once

#include <string>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

#if defined(OPEN_MPI)
inline constexpr const char* own_abi = "openmpi";
#elif defined(MPICH_VERSION) || defined(I_MPI_VERSION)
inline constexpr const char* own_abi = "mpich";
#else
inline constexpr const char* own_abi = "abi";
#endif

// Returns the first line of MPI_Get_library_version(), or "" if there is no MPI, or one before 3.0.
std::string host_version();

}  // namespace fairlead::mpi
