! SPDX-License-Identifier: Apache-2.0
!
! A Fortran program that asks whose device memory MPI takes, by the functions of MPICH. With the argument rocm, that of
! AMD's GPUs, else none. A function without arguments returns its answer in ierror.

#include "bindings.h"

program queries
  USE_MPI
  implicit none
  INCLUDE_MPI

  integer, parameter :: cuda = 0, ze = 1, hip = 2
  integer :: answer, ierror
  logical :: with_rocm

  with_rocm = command_argument_count() > 0
  call MPI_Init(ierror)
  call MPIX_Query_cuda_support(answer)
  if (answer /= 0) error stop 'MPIX_Query_cuda_support'
  call MPIX_Query_ze_support(answer)
  if (answer /= 0) error stop 'MPIX_Query_ze_support'
  call MPIX_Query_hip_support(answer)
  if (answer /= merge(1, 0, with_rocm)) error stop 'MPIX_Query_hip_support'
  if (takes(cuda) .or. takes(ze)) error stop 'MPIX_GPU_query_support of CUDA or ZE'
  if (takes(hip) .neqv. with_rocm) error stop 'MPIX_GPU_query_support of HIP'
  call MPI_Finalize(ierror)

contains
  logical function takes(gpu_type)
    integer, intent(in) :: gpu_type
    logical :: answer
    takes = .false.
    answer = .true.
    ierror = -1
    call MPIX_GPU_query_support(gpu_type, answer, ierror)
    if (ierror /= MPI_SUCCESS) error stop 'MPIX_GPU_query_support failed'
    takes = answer
  end function
end program
