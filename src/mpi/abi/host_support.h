// SPDX-License-Identifier: Apache-2.0
//
// What the host MPI says of its own GPU support, by the functions in which MPIs tell it. Fairlead exports
// functions of the same names (mpi/job/gpu_queries.cpp); these are the next ones after them.

#pragma once

namespace fairlead::mpi {

// The functions of Open MPI and MVAPICH take no argument, that of MPICH and Cray MPICH takes a number. No MPI
// handles simulated GPUs; one that the tests put in front of it does.
struct HostQuestion {
  const char* memory;  // the provider's name; "ze": of Intel's GPUs, for which there is no provider
  const char* function;
  int kind;  // negative: no argument
};
inline constexpr HostQuestion host_questions[] = {
    {"cuda", "MPIX_Query_cuda_support", -1}, {"cuda", "MPIX_GPU_query_support", 0},
    {"rocm", "MPIX_Query_rocm_support", -1}, {"rocm", "MPIX_Query_hip_support", -1},
    {"rocm", "MPIX_GPU_query_support", 2},   {"ze", "MPIX_Query_ze_support", -1},
    {"ze", "MPIX_GPU_query_support", 1},     {"sim", "MPIX_Query_sim_support", -1},
};

// Negative: the host MPI lacks the function. Some MPIs end the program if they are asked before MPI_Init.
int answer_of_host(const HostQuestion& question);

// The next function of this name after Fairlead's; null if there is none. Finds those of libraries that were
// opened by dlopen() as well, as Python opens MPI and its Fortran library.
void* next_function(const char* name);

}  // namespace fairlead::mpi
