! SPDX-License-Identifier: Apache-2.0
!
! Fortran that a C program opens after MPI_Init, as Python does with extension modules; opened_late.cpp is the program.

function add_up() bind(c) result(sum)
  use mpi_f08
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  integer(c_int) :: sum
  integer :: place(1)
  type(MPI_Request) :: request
  place = 1
  call MPI_Iallreduce(MPI_IN_PLACE, place, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  sum = place(1)
end function
