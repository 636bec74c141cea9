! SPDX-License-Identifier: Apache-2.0
!
! Collectives of Fortran ranks on device memory, also with MPI_IN_PLACE, with an operation that is written in
! Fortran, and on communicators that the host MPI's Fortran makes.

#include "bindings.h"

! The first of its arguments, so that order matters.
#if defined(WITH_MPI_F08)
subroutine first_of(invec, inoutvec, length, datatype)
  use mpi_f08
  use, intrinsic :: iso_c_binding
  implicit none
  type(c_ptr), value :: invec, inoutvec
  integer :: length
  type(MPI_Datatype) :: datatype
  real(c_double), pointer :: in(:), inout(:)
  call c_f_pointer(invec, in, [length])
  call c_f_pointer(inoutvec, inout, [length])
  if (datatype /= MPI_DOUBLE_PRECISION) error stop 'an operation has another datatype'
  inout = in
end subroutine
#else
subroutine first_of(in, inout, length, datatype)
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: length, datatype
  double precision :: in(length), inout(length)
  if (datatype /= MPI_DOUBLE_PRECISION) error stop 'an operation has another datatype'
  inout = in
end subroutine
#endif

program collectives
  USE_MPI
  use buffers
  use job
  implicit none
  INCLUDE_MPI

  integer, parameter :: n = 5000
  integer :: ranks, ierror
  real(c_double), pointer, contiguous :: one(:), all_of_them(:), result(:)

  ranks = begin_job()
  one => counting_from(content(my_rank), n)
  result => counting_from(0, n)
  all_of_them => counting_from(0, n * ranks)

  call broadcast()
  call reductions()
  call own_operation()
  call gathered()
  call alltoall_of_complex()
  call alltoall_of_types()
  call started()
  call sections()
  call neighbours()

  call release(one)
  call release(result)
  call release(all_of_them)
  call end_job()

contains
  integer function content(rank)
    integer, intent(in) :: rank
    content = 10000 * (rank + 1)
  end function

  subroutine broadcast()
    integer :: root
    do root = 0, ranks - 1
      call release(result)
      result => counting_from(content(my_rank), n)
      call MPI_Bcast(result, n, MPI_DOUBLE_PRECISION, root, MPI_COMM_WORLD IERR)
      call expect_counting(result, content(root), 'what the root broadcasts')
    end do
  end subroutine

  subroutine expect_sum(buffer, what)
    real(c_double), pointer, contiguous, intent(in) :: buffer(:)
    character(len=*), intent(in) :: what
    integer :: i, rank
    real(c_double) :: expected(n)
    expected = 0
    do rank = 0, ranks - 1
      expected = expected + [(real(content(rank) + i - 1, c_double), i = 1, n)]
    end do
    call expect(all(values_of(buffer) == expected), what)
  end subroutine

  subroutine reductions()
    real(c_double), pointer, contiguous :: here(:)
    call MPI_Allreduce(one, result, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD IERR)
    call expect_sum(result, 'a sum')
    here => counting_from(content(my_rank), n)
    call MPI_Allreduce(MPI_IN_PLACE, here, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD IERR)
    call expect_sum(here, 'a sum in place')
    call release(here)
    here => counting_from(content(my_rank), n)
    if (my_rank == 0) then
      call MPI_Reduce(MPI_IN_PLACE, here, n, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD IERR)
      call expect_sum(here, 'a sum in place at the root')
    else
      call MPI_Reduce(here, result, n, MPI_DOUBLE_PRECISION, MPI_SUM, 0, MPI_COMM_WORLD IERR)
    end if
    call release(here)
  end subroutine

  subroutine own_operation()
    external :: first_of
    AN_OP :: op
    call MPI_Op_create(first_of, .false., op IERR)
    call MPI_Allreduce(one, result, n, MPI_DOUBLE_PRECISION, op, MPI_COMM_WORLD IERR)
    call expect_counting(result, content(0), 'an operation of the program')
    call MPI_Op_free(op IERR)
    call expect(op == MPI_OP_NULL, 'a freed operation is null')
  end subroutine

  subroutine gathered()
    integer :: counts(ranks), places(ranks), i
    real(c_double) :: values(n * ranks)
    call MPI_Gather(one, n, MPI_DOUBLE_PRECISION, all_of_them, n, MPI_DOUBLE_PRECISION, 1, MPI_COMM_WORLD IERR)
    if (my_rank == 1) then
      values = values_of(all_of_them)
      do i = 1, ranks
        call expect(values(n * i) == content(i - 1) + n - 1, 'a rank that is gathered')
      end do
    end if
    counts = [(n - i, i = 1, ranks)]
    places = [(n * (ranks - i), i = 1, ranks)]
    call MPI_Gatherv(one, counts(my_rank + 1), MPI_DOUBLE_PRECISION, all_of_them, counts, places, &
                     MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD IERR)
    if (my_rank == 0) then
      values = values_of(all_of_them)
      do i = 1, ranks
        call expect(values(places(i) + counts(i)) == content(i - 1) + counts(i) - 1, 'ranks in other places')
      end do
    end if
  end subroutine

  subroutine alltoall_of_complex()
    real(c_double), pointer, contiguous :: from(:), to(:)
    complex(c_double), pointer, contiguous :: send(:), receive(:)
    real(c_double) :: values(2 * n * ranks)
    integer :: i
    from => counting_from(1000000 * my_rank, 2 * n * ranks)
    to => counting_from(0, 2 * n * ranks)
    send => pairs_of(from)
    receive => pairs_of(to)
    call MPI_Alltoall(send, n, MPI_DOUBLE_COMPLEX, receive, n, MPI_DOUBLE_COMPLEX, MPI_COMM_WORLD IERR)
    values = values_of(to)
    do i = 0, ranks - 1
      call expect(values(2 * n * i + 1) == 1000000 * i + 2 * n * my_rank, 'the first real part of a rank')
      call expect(values(2 * n * (i + 1)) == 1000000 * i + 2 * n * (my_rank + 1) - 1, 'its last imaginary part')
    end do
    call release(from)
    call release(to)
  end subroutine

  ! Blocks that are one datatype each.
  subroutine alltoall_of_types()
    A_DATATYPE :: block, types(ranks)
    A_REQUEST :: request
    integer :: counts(ranks), places(ranks), i
    real(c_double), pointer, contiguous :: from(:)
    real(c_double) :: values(n * ranks)
    from => counting_from(1000000 * my_rank, n * ranks)
    call MPI_Type_contiguous(n, MPI_DOUBLE_PRECISION, block IERR)
    call MPI_Type_commit(block IERR)
    types = block
    counts = 1
    places = [(8 * n * (i - 1), i = 1, ranks)]
    if (in_host_memory()) then
      call MPI_Alltoallw(from, counts, places, types, all_of_them, counts, places, types, MPI_COMM_WORLD IERR)
    else  ! Open MPI 4.1.4 itself forgets the datatypes before the end
      call MPI_Ialltoallw(from, counts, places, types, all_of_them, counts, places, types, MPI_COMM_WORLD, request IERR)
      call MPI_Wait(request, MPI_STATUS_IGNORE IERR)
    end if
    values = values_of(all_of_them)
    do i = 0, ranks - 1
      call expect(values(n * i + 1) == 1000000 * i + n * my_rank, 'a block by its datatype')
    end do
    call MPI_Type_free(block IERR)
    call release(from)
  end subroutine

  subroutine started()
    A_REQUEST :: requests(2)
    call MPI_Iallreduce(one, result, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, requests(1) IERR)
    call MPI_Ibarrier(MPI_COMM_WORLD, requests(2) IERR)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE IERR)
    call expect_sum(result, 'a sum that was started')
  end subroutine

  ! Every second element, where a section is handed to MPI as it is. The datatype that describes it to the host MPI
  ! is gone when the call returns.
  subroutine sections()
    A_REQUEST :: requests(ranks)
    real(c_double) :: values(n)
    integer :: i, root
    if (.not. MPI_SUBARRAYS_SUPPORTED) return
    call release(result)
    result => counting_from(content(my_rank), n)
    do root = 0, ranks - 1
      call MPI_Ibcast(result(root + 1::ranks), size(result(root + 1::ranks)), MPI_DOUBLE_PRECISION, root, &
                      MPI_COMM_WORLD, requests(root + 1) IERR)
    end do
    call MPI_Waitall(ranks, requests, MPI_STATUSES_IGNORE IERR)
    values = values_of(result)
    do i = 1, n
      call expect(values(i) == content(mod(i - 1, ranks)) + i - 1, 'a section from each rank')
    end do
  end subroutine

  ! A ring, from a grid and from a graph without weights; and a graph of one edge. Ranks are those of MPI_COMM_WORLD in
  ! all of them. No graph is made from the grid: Open MPI 5.0.7 takes that for a grid, too.
  subroutine neighbours()
    A_COMM :: ring, graph
    integer :: grid_rank
    logical :: periods(1)
    real(c_double), pointer, contiguous :: out(:), in(:)
    real(c_double) :: values(2 * n)
    integer :: coordinates(1), left, right
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., ring IERR)
    call MPI_Cart_get(ring, 1, coordinates, periods, coordinates IERR)
    call expect(periods(1), 'a LOGICAL reaches the host MPI')
    call MPI_Comm_rank(ring, grid_rank IERR)
    call MPI_Cart_shift(ring, 0, 1, left, right IERR)
    out => counting_from(content(grid_rank), 2 * n)
    in => counting_from(0, 2 * n)
    call MPI_Neighbor_alltoall(out, n, MPI_DOUBLE_PRECISION, in, n, MPI_DOUBLE_PRECISION, ring IERR)
    values = values_of(in)
    call expect(values(1) == content(left) + n, 'the left neighbour sends its second half')
    call expect(values(n + 1) == content(right), 'the right one its first')
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [left], MPI_UNWEIGHTED, 1, [right], MPI_UNWEIGHTED, &
                                        MPI_INFO_NULL, .false., graph IERR)
    call MPI_Neighbor_allgather(out, n, MPI_DOUBLE_PRECISION, in, n, MPI_DOUBLE_PRECISION, graph IERR)
    values = values_of(in)
    call expect(values(n) == content(left) + n - 1, 'a neighbour of a graph')
    call MPI_Comm_free(graph IERR)
    call release(in)
    in => counting_from(0, 2 * n)
    if (grid_rank == 0) then
      call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [left], [2], 0, [0], MPI_WEIGHTS_EMPTY, &
                                          MPI_INFO_NULL, .false., graph IERR)
    else if (right == 0) then
      call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, [0], MPI_WEIGHTS_EMPTY, 1, [0], [2], &
                                          MPI_INFO_NULL, .false., graph IERR)
    else
      call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, [0], MPI_WEIGHTS_EMPTY, 0, [0], MPI_WEIGHTS_EMPTY, &
                                          MPI_INFO_NULL, .false., graph IERR)
    end if
    call MPI_Neighbor_allgather(out, n, MPI_DOUBLE_PRECISION, in, n, MPI_DOUBLE_PRECISION, graph IERR)
    values = values_of(in)
    call expect(values(n) == merge(content(left), 0, grid_rank == 0) + n - 1, 'the only edge of a graph with weights')
    call MPI_Comm_free(graph IERR)
    call MPI_Comm_free(ring IERR)
    call expect(ring == MPI_COMM_NULL, 'a freed communicator is null')
    call release(out)
    call release(in)
  end subroutine
end program
