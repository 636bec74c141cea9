// SPDX-License-Identifier: Apache-2.0
//
// What programs look at, besides the MPI's functions, to find out whether MPI takes device memory: variables
// of the environment, Open MPI's ompi_info, and macros of its header mpi-ext.h. And what ROCm must be told so
// that ranks can share it.

#pragma once

#include <map>
#include <string>

namespace fairlead::tools {

struct Program;

// The variables that make a rank of the program, under the MPI of this ABI, hear that MPI takes the memory of
// this process's GPUs. None where Fairlead handles none, as of simulated GPUs. Those that the user has set
// stay.
std::map<std::string, std::string> gpu_aware_variables(const Program& program, const std::string& abi);

}  // namespace fairlead::tools
