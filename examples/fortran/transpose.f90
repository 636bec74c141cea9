! SPDX-License-Identifier: Apache-2.0
!
! The step between the dimensions of a parallel Fourier transform: every rank has some columns of a complex matrix in
! the memory of its GPU, and sends a block of them to every other rank by MPI_Alltoall. Two transpositions restore the
! matrix. The program does not depend on Fairlead: the arrays are ordinary Fortran pointers to device memory.
!
!   fairlead run -n 4 transpose-openmpi

program transpose
  use mpi_f08
  use fairlead_device
  implicit none

  integer, parameter :: block = 64 * 64  ! elements for each rank
  complex(c_double_complex), pointer, contiguous :: mine(:, :), theirs(:, :)  ! on the device: not for the host
  complex(c_double_complex), allocatable, target :: host(:, :)
  type(c_ptr) :: mine_memory, theirs_memory
  integer(c_size_t) :: bytes
  integer :: rank, ranks, i, wrong

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  if (fairlead_device_count() == 0) error stop 'transpose: no GPU here; FAIRLEAD_DEVICE=sim simulates one'
  call need(fairlead_device_set(mod(rank, fairlead_device_count())))

  bytes = 16_c_size_t * block * ranks
  call need(fairlead_device_malloc(mine_memory, bytes))
  call need(fairlead_device_malloc(theirs_memory, bytes))
  call c_f_pointer(mine_memory, mine, [block, ranks])
  call c_f_pointer(theirs_memory, theirs, [block, ranks])

  ! The real part of a block is its sender, the imaginary part its receiver.
  allocate (host(block, ranks))
  do i = 1, ranks
    host(:, i) = cmplx(rank, i - 1, c_double_complex)
  end do
  call need(fairlead_device_copy(mine_memory, c_loc(host), bytes))

  call MPI_Alltoall(mine, block, MPI_DOUBLE_COMPLEX, theirs, block, MPI_DOUBLE_COMPLEX, MPI_COMM_WORLD)
  call need(fairlead_device_copy(c_loc(host), theirs_memory, bytes))
  wrong = count([(any(host(:, i) /= cmplx(i - 1, rank, c_double_complex)), i = 1, ranks)])

  call MPI_Alltoall(theirs, block, MPI_DOUBLE_COMPLEX, mine, block, MPI_DOUBLE_COMPLEX, MPI_COMM_WORLD)
  call need(fairlead_device_copy(c_loc(host), mine_memory, bytes))
  wrong = wrong + count([(any(host(:, i) /= cmplx(rank, i - 1, c_double_complex)), i = 1, ranks)])

  call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0 .and. wrong == 0) print '(a,i0,a)', 'transposed and back on ', ranks, ' ranks, all correct'
  if (rank == 0 .and. wrong /= 0) print '(i0,a)', wrong, ' blocks are WRONG'
  call need(fairlead_device_free(mine_memory))
  call need(fairlead_device_free(theirs_memory))
  call MPI_Finalize()
  if (wrong /= 0) error stop 1

contains
  subroutine need(error)
    integer(c_int), intent(in) :: error
    if (error /= 0) error stop 'transpose: the GPU refused something'
  end subroutine
end program
