! SPDX-License-Identifier: Apache-2.0
!
! A halo exchange: the ranks divide a periodic plane by columns, and before each step of a stencil every rank needs the
! columns of its neighbours next to its own. Each message goes from the field on one GPU to the field on another one,
! because a column of a Fortran array is contiguous. The program does not depend on Fairlead.
!
!   fairlead run -n 4 halo-openmpi

program halo
  use mpi
  use fairlead_device
  implicit none

  integer, parameter :: rows = 512, columns = 32
  real(c_double), pointer, contiguous :: field(:, :)  ! on the device; columns 0 and columns + 1 are the halo
  real(c_double), target :: host(rows, 0:columns + 1)
  type(c_ptr) :: memory
  integer(c_size_t), parameter :: bytes = 8_c_size_t * rows * (columns + 2)
  integer :: plane, rank, ranks, left, right, column, requests(4), wrong, error

  call MPI_Init(error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .true., plane, error)
  call MPI_Comm_rank(plane, rank, error)
  call MPI_Cart_shift(plane, 0, 1, left, right, error)
  if (fairlead_device_count() == 0) error stop 'halo: no GPU here; FAIRLEAD_DEVICE=sim simulates one'
  call need(fairlead_device_set(mod(rank, fairlead_device_count())))
  call need(fairlead_device_malloc(memory, bytes))
  call map(memory)

  ! Each element of a column holds the column's number in the whole plane; the halo is not filled yet.
  host = -1
  do column = 1, columns
    host(:, column) = rank * columns + column
  end do
  call need(fairlead_device_copy(memory, c_loc(host), bytes))

  call MPI_Irecv(field(1, 0), rows, MPI_DOUBLE_PRECISION, left, 1, plane, requests(1), error)
  call MPI_Irecv(field(1, columns + 1), rows, MPI_DOUBLE_PRECISION, right, 2, plane, requests(2), error)
  call MPI_Isend(field(1, columns), rows, MPI_DOUBLE_PRECISION, right, 1, plane, requests(3), error)
  call MPI_Isend(field(1, 1), rows, MPI_DOUBLE_PRECISION, left, 2, plane, requests(4), error)
  call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE, error)

  call need(fairlead_device_copy(c_loc(host), memory, bytes))
  wrong = count(host(:, 0) /= left * columns + columns) + count(host(:, columns + 1) /= right * columns + 1)
  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, plane, error)
  if (rank == 0 .and. wrong == 0) print '(a,i0,a)', 'the halos of ', ranks, ' ranks are all correct'
  if (rank == 0 .and. wrong /= 0) print '(i0,a)', wrong, ' elements of halos are WRONG'
  call need(fairlead_device_free(memory))
  call MPI_Finalize(error)
  if (wrong /= 0) error stop 1

contains
  subroutine map(memory)
    type(c_ptr), intent(in) :: memory
    real(c_double), pointer, contiguous :: from_one(:, :)
    call c_f_pointer(memory, from_one, [rows, columns + 2])
    field(1:rows, 0:columns + 1) => from_one
  end subroutine

  subroutine need(error)
    integer(c_int), intent(in) :: error
    if (error /= 0) error stop 'halo: the GPU refused something'
  end subroutine
end program
