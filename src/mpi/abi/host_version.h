// SPDX-License-Identifier: Apache-2.0
//
// Which MPI ABI this library is of, and what the host MPI says that it is.

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

// The first line of MPI_Get_library_version(); "" where there is no MPI, or an MPI before 3.0.
std::string host_version();

}  // namespace fairlead::mpi
