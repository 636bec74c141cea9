! SPDX-License-Identifier: Apache-2.0
!
! The beginning and the end of a job whose ranks count their failures: where any of them has one, all end with an error.

#include "bindings.h"

module job
  USE_MPI
  use buffers
  implicit none
  INCLUDE_MPI
  private
  public :: begin_job, end_job

contains
  integer function begin_job() result(ranks)
    integer :: ierror
    call MPI_Init(ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, my_rank IERR)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks IERR)
  end function

  subroutine end_job()
    integer :: ierror
    call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD IERR)
    call MPI_Finalize(ierror)
    if (failures > 0) error stop 1
  end subroutine
end module
