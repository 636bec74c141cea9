! SPDX-License-Identifier: Apache-2.0
!
! The step between the dimensions of a parallel Fourier transform, by OpenMP offload and MPI: every rank has some
! columns of a complex matrix on its GPU and sends a block of them to every other rank by MPI_Alltoall, to which
! `use_device_addr` gives device addresses. Two transpositions restore the matrix; the GPU checks it.
!
!   gfortran -O3 -fopenmp -foffload=nvptx-none ... (docs/tutorial/offload.md)
!   fairlead run -n 2 ./transpose_omp

program transpose
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use omp_lib
  implicit none

  integer, parameter :: block = 64 * 64  ! numbers for each rank
  complex(real64), allocatable, target :: mine(:, :), theirs(:, :)
  integer :: rank, ranks, i, j, wrong, all_wrong, on_gpu, everywhere

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call choose_gpu()
  allocate (mine(block, 0:ranks - 1), theirs(block, 0:ranks - 1))

  wrong = 0
  !$omp target data map(alloc: mine, theirs)
  !$omp target teams distribute parallel do collapse(2)
  do j = 0, ranks - 1
    do i = 1, block
      mine(i, j) = cmplx(rank, j, real64)
    end do
  end do
  call exchange(mine, theirs)
  !$omp target teams distribute parallel do collapse(2) reduction(+:wrong) map(tofrom: wrong)
  do j = 0, ranks - 1
    do i = 1, block
      if (theirs(i, j) /= cmplx(j, rank, real64)) wrong = wrong + 1
    end do
  end do
  call exchange(theirs, mine)
  !$omp target teams distribute parallel do collapse(2) reduction(+:wrong) map(tofrom: wrong)
  do j = 0, ranks - 1
    do i = 1, block
      if (mine(i, j) /= cmplx(rank, j, real64)) wrong = wrong + 1
    end do
  end do
  !$omp end target data

  on_gpu = runs_on_gpu()
  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Reduce(on_gpu, everywhere, 1, MPI_INTEGER, MPI_MIN, 0, MPI_COMM_WORLD)
  if (rank == 0 .and. all_wrong == 0) print '(a,i0,3a)', 'transpose_omp: there and back on ', ranks, ' ', &
    merge('GPUs', 'CPUs', everywhere == 1), ', all correct'
  if (rank == 0 .and. all_wrong /= 0) print '(a,i0,a)', 'transpose_omp: ', all_wrong, ' numbers are WRONG'
  call MPI_Finalize()
  if (all_wrong /= 0) error stop 1

contains
  subroutine exchange(from, to)
    complex(real64), intent(in), target :: from(block, 0:ranks - 1)
    complex(real64), intent(inout), target :: to(block, 0:ranks - 1)
    !$omp target data use_device_addr(from, to)
    call MPI_Alltoall(from, block, MPI_DOUBLE_COMPLEX, to, block, MPI_DOUBLE_COMPLEX, MPI_COMM_WORLD)
    !$omp end target data
  end subroutine

  subroutine choose_gpu()
    type(MPI_Comm) :: node
    integer :: local_rank
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
    call MPI_Comm_rank(node, local_rank)
    call MPI_Comm_free(node)
    if (omp_get_num_devices() > 0) call omp_set_default_device(mod(local_rank, omp_get_num_devices()))
  end subroutine

  ! Programs whose compiler or driver finds no GPU run on the CPU, without a message.
  integer function runs_on_gpu()
    integer :: yes
    yes = 0
    !$omp target map(from: yes)
    yes = merge(0, 1, omp_is_initial_device())
    !$omp end target
    runs_on_gpu = yes
  end function
end program
