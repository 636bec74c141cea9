! SPDX-License-Identifier: Apache-2.0
!
! Jacobi's iteration for Laplace's equation on a square, by OpenACC and MPI: the grid is on the GPU, each rank has
! some columns of it, and `host_data use_device` passes the device addresses of the columns at its borders. The sum
! of all bits at the end is the same for any number of ranks.
!
!   gfortran -O3 -fopenacc -foffload=nvptx-none ... (docs/tutorial/offload.md)
!   fairlead run -n 2 ./laplace2d_acc [CELLS [ITERATIONS]]

program laplace2d
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi_f08
  use openacc
  implicit none

  real(real64), allocatable :: u(:, :), next(:, :)
  real(real64) :: change, largest
  integer(int64) :: bits, all_bits
  integer :: cells = 512, iterations = 200
  integer :: rank, ranks, first, columns, left, right, row, column, iteration, on_gpu, everywhere

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call choose_gpu()
  call read_argument(1, cells)
  call read_argument(2, iterations)
  if (cells < ranks .or. iterations < 0) then
    if (rank == 0) write (error_unit, '(a,i0,a)') 'laplace2d_acc: CELLS is a number from ', ranks, &
      ' (the ranks) on, ITERATIONS one from 0 on'
    call MPI_Finalize()
    stop 2
  end if

  ! Columns 0 and columns + 1 are the neighbours' or the edge of the square, where u is 0 on the left, 1 on the right.
  first = int(int(cells, int64) * rank / ranks)
  columns = int(int(cells, int64) * (rank + 1) / ranks) - first
  allocate (u(0:cells + 1, 0:columns + 1), next(0:cells + 1, 0:columns + 1))
  u = 0
  do column = 0, columns + 1
    u(0, column) = real(first + column, real64) / (cells + 1)
    u(cells + 1, column) = u(0, column)
  end do
  if (rank == ranks - 1) u(:, columns + 1) = 1
  left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)

  change = 0
  !$acc data copy(u) create(next)
  do iteration = 1, iterations
    call exchange(u)
    change = 0
    !$acc parallel loop collapse(2) reduction(max:change) present(u, next)
    do column = 1, columns
      do row = 1, cells
        next(row, column) = 0.25_real64 * (u(row, column - 1) + u(row, column + 1) &
                                           + u(row - 1, column) + u(row + 1, column))
        change = max(change, abs(next(row, column) - u(row, column)))
      end do
    end do
    !$acc parallel loop collapse(2) present(u, next)
    do column = 1, columns
      do row = 1, cells
        u(row, column) = next(row, column)
      end do
    end do
  end do
  !$acc end data

  bits = 0
  do column = 1, columns
    do row = 1, cells
      bits = ieor(bits, ishftc(transfer(u(row, column), bits), mod(7 * (first + column) + row, 64)))
    end do
  end do
  on_gpu = runs_on_gpu()
  call MPI_Reduce(bits, all_bits, 1, MPI_INTEGER8, MPI_BXOR, 0, MPI_COMM_WORLD)
  call MPI_Reduce(change, largest, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD)
  call MPI_Reduce(on_gpu, everywhere, 1, MPI_INTEGER, MPI_MIN, 0, MPI_COMM_WORLD)
  if (rank == 0) print '(a,i0,a,i0,a,i0,a,a,a,es9.3,a,z16.16)', 'laplace2d_acc: ', cells, ' x ', cells, ' cells, ', &
    iterations, ' iterations on ', merge('GPUs', 'CPUs', everywhere == 1), ', last change ', largest, ', bits ', &
    all_bits
  call MPI_Finalize()

contains
  subroutine read_argument(place, number)
    integer, intent(in) :: place
    integer, intent(inout) :: number
    character(len=32) :: word
    integer :: status
    if (command_argument_count() < place) return
    call get_command_argument(place, word)
    read (word, *, iostat=status) number
    if (status /= 0) number = -1
  end subroutine

  ! Not in the loop: `use_device` takes no allocatable array.
  subroutine exchange(u)
    real(real64), intent(inout) :: u(0:cells + 1, 0:columns + 1)
    !$acc host_data use_device(u)
    call MPI_Sendrecv(u(:, 1), cells + 2, MPI_DOUBLE_PRECISION, left, 0, u(:, columns + 1), cells + 2, &
                      MPI_DOUBLE_PRECISION, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(u(:, columns), cells + 2, MPI_DOUBLE_PRECISION, right, 1, u(:, 0), cells + 2, &
                      MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    !$acc end host_data
  end subroutine

  ! The ranks of a node take its GPUs in turn.
  subroutine choose_gpu()
    type(MPI_Comm) :: node
    integer :: local_rank, gpus
    call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, node)
    call MPI_Comm_rank(node, local_rank)
    call MPI_Comm_free(node)
    gpus = acc_get_num_devices(acc_get_device_type())
    if (gpus > 0) call acc_set_device_num(mod(local_rank, gpus), acc_get_device_type())
  end subroutine

  ! Compilers that cannot reach a GPU run the same loops on the CPU, without a message.
  integer function runs_on_gpu()
    integer :: yes
    yes = 0
    !$acc parallel copy(yes)
    if (acc_on_device(acc_device_not_host)) yes = 1
    !$acc end parallel
    runs_on_gpu = yes
  end function
end program
