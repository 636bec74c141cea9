// SPDX-License-Identifier: Apache-2.0
//
// The Fortran names of the functions of mpi/job/gpu_queries.cpp, with the arguments that they have in MPICH:
// the functions without arguments return their answer in ierror. Open MPI has no Fortran names for them; a
// program with implicit interfaces finds these.

#include "mpi/fortran/fortran.h"

using fairlead::mpi::fortran::Integer;

#define FAIRLEAD_GPU_QUERY_IN_FORTRAN(symbol, capitals, parameters) \
  extern "C" FAIRLEAD_EXPORT void symbol##_ parameters;             \
  FAIRLEAD_OTHER_NAME(symbol##__, symbol##_, parameters)            \
  FAIRLEAD_OTHER_NAME(symbol, symbol##_, parameters)                \
  FAIRLEAD_OTHER_NAME(capitals, symbol##_, parameters)              \
  FAIRLEAD_OTHER_NAME(symbol##_f08_, symbol##_, parameters)         \
  void symbol##_ parameters

#define FAIRLEAD_PLAIN_GPU_QUERY(name, lower, upper)                              \
  extern "C" int fairlead_##name() __asm__("MPIX_" #name);                        \
  FAIRLEAD_GPU_QUERY_IN_FORTRAN(mpix_##lower, MPIX_##upper, (Integer * ierror)) { \
    fairlead::mpi::fortran::report(ierror, fairlead_##name());                    \
  }

FAIRLEAD_PLAIN_GPU_QUERY(Query_cuda_support, query_cuda_support, QUERY_CUDA_SUPPORT)
FAIRLEAD_PLAIN_GPU_QUERY(Query_rocm_support, query_rocm_support, QUERY_ROCM_SUPPORT)
FAIRLEAD_PLAIN_GPU_QUERY(Query_hip_support, query_hip_support, QUERY_HIP_SUPPORT)
FAIRLEAD_PLAIN_GPU_QUERY(Query_ze_support, query_ze_support, QUERY_ZE_SUPPORT)

extern "C" int fairlead_GPU_query_support(int gpu_type, int* is_supported) __asm__("MPIX_GPU_query_support");
FAIRLEAD_GPU_QUERY_IN_FORTRAN(mpix_gpu_query_support, MPIX_GPU_QUERY_SUPPORT,
                              (const Integer* gpu_type, Integer* is_supported, Integer* ierror)) {
  int answer = 0;
  const int result = fairlead_GPU_query_support(*gpu_type, &answer);
  if (result == MPI_SUCCESS) *fairlead::mpi::fortran::Logical(is_supported) = answer;
  fairlead::mpi::fortran::report(ierror, result);
}
