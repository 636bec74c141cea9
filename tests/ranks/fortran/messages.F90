! SPDX-License-Identifier: Apache-2.0
!
! Messages between Fortran ranks in device memory: each reaches its place, and statuses, requests, LOGICALs, indices
! and errors come back as Fortran has them.

#include "bindings.h"

module errors
  USE_MPI
  implicit none
  INCLUDE_MPI
  integer :: errors_raised = 0
  A_COMM :: raised_on

contains
  subroutine note_error(comm, code)
    A_COMM :: comm
    integer :: code
    if (code /= MPI_SUCCESS) errors_raised = errors_raised + 1
    raised_on = comm
  end subroutine
end module

program messages
  USE_MPI
  use errors, only: errors_raised, note_error, raised_on
  use buffers
  use job
  implicit none
  INCLUDE_MPI

  integer, parameter :: large = 20000
  integer :: ranks, right, left, ierror
  real(c_double), pointer, contiguous :: out(:), in(:), more(:)

  ranks = begin_job()
  right = mod(my_rank + 1, ranks)
  left = mod(my_rank + ranks - 1, ranks)

  call blocking(1)
  call blocking(large)
  call nonblocking()
  if (.not. in_host_memory()) call one_after_another()
  call flags_are_logical()
  call probed()
  call persistent()
  call buffered()
  call from_bottom()
  call while_in_the_host()
  call truncated()
  call raised()
  call sections()
  if (.not. in_host_memory()) call packs()

  call end_job()

contains
  integer function content(rank)
    integer, intent(in) :: rank
    content = 1000 * (rank + 1)
  end function

  subroutine take_buffers(n)
    integer, intent(in) :: n
    out => counting_from(content(my_rank), n)
    in => counting_from(0, n)
    more => counting_from(0, n)
  end subroutine

  subroutine give_back()
    call release(out)
    call release(in)
    call release(more)
  end subroutine

  subroutine blocking(n)
    integer, intent(in) :: n
    integer :: count
    A_STATUS
    call take_buffers(n)
    if (my_rank == 0) then
      call MPI_Send(out, n, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD IERR)
      call MPI_Recv(in, n, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, status IERR)
    else
      call MPI_Recv(in, n, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, status IERR)
      call MPI_Ssend(out, n, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD IERR)
    end if
    call expect_counting(in, content(left), 'a message is received')
    call expect(FIELD(MPI_SOURCE) == left .and. FIELD(MPI_TAG) == 1, 'its status says from whom')
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count IERR)
    call expect(count == n, 'and how much')
    call MPI_Sendrecv(out, n, MPI_DOUBLE_PRECISION, left, 2, more, n, MPI_DOUBLE_PRECISION, right, 2, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    call expect_counting(more, content(right), 'a message is received while another is sent')
    call MPI_Sendrecv_replace(out, n, MPI_DOUBLE_PRECISION, right, 3, left, 3, MPI_COMM_WORLD, status IERR)
    call expect_counting(out, content(left), 'a message takes the place of another')
    call expect(FIELD(MPI_SOURCE) == left .and. FIELD(MPI_TAG) == 3, 'which its status says')
    call give_back()
  end subroutine

  subroutine nonblocking()
    A_REQUEST :: requests(4)
    STATUSES(4)
    integer :: i
    call take_buffers(large)
    do i = 1, 2
      call MPI_Irecv(in, large, MPI_DOUBLE_PRECISION, left, 4, MPI_COMM_WORLD, requests(1) IERR)
      call MPI_Irecv(more, large, MPI_DOUBLE_PRECISION, right, 5, MPI_COMM_WORLD, requests(2) IERR)
      call MPI_Isend(out, large, MPI_DOUBLE_PRECISION, right, 4, MPI_COMM_WORLD, requests(3) IERR)
      call MPI_Isend(out, large, MPI_DOUBLE_PRECISION, left, 5, MPI_COMM_WORLD, requests(4) IERR)
      if (i == 1) then
        call MPI_Waitall(4, requests, statuses IERR)
        call expect(FIELD_OF(1, MPI_SOURCE) == left .and. FIELD_OF(1, MPI_TAG) == 4, 'the first has its status')
        call expect(FIELD_OF(2, MPI_SOURCE) == right .and. FIELD_OF(2, MPI_TAG) == 5, 'the second has its status')
      else
        call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE IERR)
      end if
      call expect(all(is_null(requests)), 'completed requests are null')
      call expect_counting(in, content(left), 'a message from the left')
      call expect_counting(more, content(right), 'a message from the right')
    end do
    call give_back()
  end subroutine

  elemental logical function is_null(request)
    A_REQUEST, intent(in) :: request
    is_null = request == MPI_REQUEST_NULL
  end function

  ! Waitany and Waitsome: indices count from one, but from zero in mpi_f08 of MPICH 4.0.2 itself.
  subroutine one_after_another()
    integer, parameter :: many = 40
    A_REQUEST :: requests(many), sends(many)
    A_STATUS
    STATUSES(many)
    integer :: i, index, done, indices(many)
    logical :: seen(many)
    call take_buffers(many)
    seen = .false.
    do i = 1, many
      call MPI_Irecv(in(i:i), 1, MPI_DOUBLE_PRECISION, left, 100 + i, MPI_COMM_WORLD, requests(i) IERR)
    end do
    do i = many, 1, -1
      call MPI_Isend(out(i:i), 1, MPI_DOUBLE_PRECISION, right, 100 + i, MPI_COMM_WORLD, sends(i) IERR)
    end do
    do i = 1, 3
      call MPI_Waitany(many, requests, index, status IERR)
      call expect(FIELD(MPI_TAG) == 100 + index .and. .not. seen(index), 'the index is that of the request')
      seen(index) = .true.
    end do
    call MPI_Waitany(many, requests, index, MPI_STATUS_IGNORE IERR)
    seen(index) = .true.
    do while (count(seen) < many)
      call MPI_Waitsome(many, requests, done, indices, statuses IERR)
      do i = 1, done
        call expect(FIELD_OF(i, MPI_TAG) == 100 + indices(i) .and. .not. seen(indices(i)), 'so are the indices')
        seen(indices(i)) = .true.
      end do
    end do
    call MPI_Waitsome(many, requests, done, indices, statuses IERR)
    call expect(done == MPI_UNDEFINED, 'nothing is left to wait for')
    call MPI_Waitany(many, requests, index, status IERR)
    call expect(index < 1, 'nothing at all')  ! MPI_UNDEFINED; one more with mpif.h and mpi of MPICH 4.0.2
    call MPI_Waitall(many, sends, MPI_STATUSES_IGNORE IERR)
    call expect_counting(in, content(left), 'every message is in its place')
    call give_back()
  end subroutine

  subroutine flags_are_logical()
    A_REQUEST :: requests(2), request
    A_STATUS
    logical :: flag
    integer :: index
    call take_buffers(large)
    flag = .true.
    call MPI_Iprobe(left, 99, MPI_COMM_WORLD, flag, status IERR)
    call expect(.not. flag, 'nothing has come')
    call MPI_Irecv(in, large, MPI_DOUBLE_PRECISION, left, 6, MPI_COMM_WORLD, requests(1) IERR)
    flag = .true.
    call MPI_Test(requests(1), flag, MPI_STATUS_IGNORE IERR)
    call expect(.not. flag, 'what was not sent is not complete')
    call MPI_Barrier(MPI_COMM_WORLD IERR)
    call MPI_Isend(out, large, MPI_DOUBLE_PRECISION, right, 6, MPI_COMM_WORLD, requests(2) IERR)
    flag = .false.
    do while (.not. flag)
      call MPI_Testall(2, requests, flag, MPI_STATUSES_IGNORE IERR)
    end do
    call expect(transfer(flag, 0) == transfer(.true., 0), 'true is what it is for this compiler')
    call expect_counting(in, content(left), 'tested until it was complete')
    call MPI_Testany(2, requests, index, flag, status IERR)
    call expect(flag .and. index < 1, 'nothing is left to test')
    call MPI_Issend(out, 1, MPI_DOUBLE_PRECISION, right, 99, MPI_COMM_WORLD, request IERR)
    flag = .false.
    do while (.not. flag)
      call MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, flag, status IERR)
    end do
    call expect(FIELD(MPI_SOURCE) == left, 'the probe says from whom')
    call MPI_Request_get_status(request, flag, MPI_STATUS_IGNORE IERR)
    call MPI_Recv(in, large, MPI_DOUBLE_PRECISION, left, 99, MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE IERR)
    call MPI_Test(request, flag, status IERR)
    call expect(flag .and. request == MPI_REQUEST_NULL, 'a null request is complete')
    call give_back()
  end subroutine

  subroutine probed()
    A_REQUEST :: request
    A_MESSAGE :: message
    A_STATUS
    integer :: count
    logical :: flag
    call take_buffers(large)
    call MPI_Isend(out, large - 7, MPI_DOUBLE_PRECISION, right, 7, MPI_COMM_WORLD, request IERR)
    call MPI_Probe(left, 7, MPI_COMM_WORLD, status IERR)
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count IERR)
    call expect(count == large - 7, 'a probe tells the length of the message')
    call MPI_Recv(in, large, MPI_DOUBLE_PRECISION, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    call MPI_Wait(request, MPI_STATUS_IGNORE IERR)

    call MPI_Isend(out, large, MPI_DOUBLE_PRECISION, right, 8, MPI_COMM_WORLD, request IERR)
    call MPI_Mprobe(left, 8, MPI_COMM_WORLD, message, status IERR)
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count IERR)
    call MPI_Mrecv(in, count, MPI_DOUBLE_PRECISION, message, status IERR)
    call expect_counting(in, content(left), 'a matched message is received')
    call expect(message == MPI_MESSAGE_NULL, 'and its handle is null')
    call MPI_Wait(request, MPI_STATUS_IGNORE IERR)
    call MPI_Improbe(left, 99, MPI_COMM_WORLD, flag, message, status IERR)
    call expect(.not. flag, 'there is no message to match')
    call give_back()
  end subroutine

  subroutine persistent()
    A_REQUEST :: requests(2)
    integer :: i
    call take_buffers(large)
    call MPI_Send_init(out, large, MPI_DOUBLE_PRECISION, right, 9, MPI_COMM_WORLD, requests(1) IERR)
    call MPI_Recv_init(in, large, MPI_DOUBLE_PRECISION, left, 9, MPI_COMM_WORLD, requests(2) IERR)
    do i = 1, 3
      call MPI_Startall(2, requests IERR)
      call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE IERR)
      call expect_counting(in, content(left), 'a persistent message')
      call expect(.not. any(is_null(requests)), 'persistent requests stay')
    end do
    call MPI_Start(requests(1) IERR)
    call MPI_Start(requests(2) IERR)
    call MPI_Wait(requests(1), MPI_STATUS_IGNORE IERR)
    call MPI_Wait(requests(2), MPI_STATUS_IGNORE IERR)
    call MPI_Request_free(requests(1) IERR)
    call MPI_Request_free(requests(2) IERR)
    call expect(all(is_null(requests)), 'until they are freed')
    call give_back()
  end subroutine

  ! A buffer in device memory; mpi_f08 tells which it was.
  subroutine buffered()
    real(c_double), pointer, contiguous :: room(:)
#if defined(WITH_MPI_F08)
    type(c_ptr) :: detached
#else
    integer(MPI_ADDRESS_KIND) :: detached
#endif
    integer :: bytes
    call take_buffers(large)
    room => counting_from(0, large + MPI_BSEND_OVERHEAD)
    call MPI_Buffer_attach(room, 8 * (large + MPI_BSEND_OVERHEAD) IERR)
    call MPI_Bsend(out, large, MPI_DOUBLE_PRECISION, right, 14, MPI_COMM_WORLD IERR)
    call MPI_Recv(in, large, MPI_DOUBLE_PRECISION, left, 14, MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    call expect_counting(in, content(left), 'a buffered message')
    call MPI_Buffer_detach(detached, bytes IERR)
    call expect(bytes == 8 * (large + MPI_BSEND_OVERHEAD), 'the length of the buffer')
#if defined(WITH_MPI_F08)
    call expect(transfer(detached, 0_c_intptr_t) == transfer(c_loc(room), 0_c_intptr_t), 'the address of the buffer')
#endif
    call release(room)
    call give_back()
  end subroutine

  ! Addresses in the datatype, counted from MPI_BOTTOM.
  subroutine from_bottom()
    integer(MPI_ADDRESS_KIND) :: place(1)
    A_DATATYPE :: outgoing, incoming
    call take_buffers(large)
    call MPI_Get_address(out, place(1) IERR)
    call MPI_Type_create_hindexed(1, [large], place, MPI_DOUBLE_PRECISION, outgoing IERR)
    call MPI_Type_commit(outgoing IERR)
    call MPI_Get_address(in, place(1) IERR)
    call MPI_Type_create_hindexed(1, [large], place, MPI_DOUBLE_PRECISION, incoming IERR)
    call MPI_Type_commit(incoming IERR)
    call MPI_Sendrecv(MPI_BOTTOM, 1, outgoing, right, 10, MPI_BOTTOM, 1, incoming, left, 10, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    call expect_counting(in, content(left), 'a message from MPI_BOTTOM')
    call MPI_Type_free(outgoing IERR)
    call MPI_Type_free(incoming IERR)
    call expect(outgoing == MPI_DATATYPE_NULL, 'a freed datatype is null')
    call give_back()
  end subroutine

  ! M5: who waits in a function of the host MPI's Fortran holds no sender up.
  subroutine while_in_the_host()
    A_COMM :: copy
    A_REQUEST :: request
    logical :: received
    call take_buffers(large)
    if (my_rank == 0) then
      call MPI_Irecv(in, large, MPI_DOUBLE_PRECISION, left, 13, MPI_COMM_WORLD, request IERR)
    else if (my_rank == ranks - 1) then
      call MPI_Send(out, large, MPI_DOUBLE_PRECISION, right, 13, MPI_COMM_WORLD IERR)
    end if
    call MPI_Comm_dup(MPI_COMM_WORLD, copy IERR)
    if (my_rank == 0) then
      received = .false.
      do while (.not. received)
        call MPI_Test(request, received, MPI_STATUS_IGNORE IERR)
      end do
      call expect_counting(in, content(left), 'a message that came meanwhile')
    end if
    call MPI_Comm_free(copy IERR)
    call give_back()
  end subroutine

  subroutine truncated()
    integer :: error_class, error
    A_REQUEST :: request
    call take_buffers(large)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN IERR)
    call MPI_Isend(out, large, MPI_DOUBLE_PRECISION, right, 11, MPI_COMM_WORLD, request IERR)
    call MPI_Recv(in, large / 2, MPI_DOUBLE_PRECISION, left, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call MPI_Error_class(error, error_class IERR)
    call expect(error_class == MPI_ERR_TRUNCATE, 'a message that is too long is an error')
    call MPI_Wait(request, MPI_STATUS_IGNORE, error)
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL IERR)
    call give_back()
  end subroutine

  subroutine raised()
    integer :: error
    A_COMM :: copy
    AN_ERRHANDLER :: handler
    call take_buffers(1)
    call MPI_Comm_dup(MPI_COMM_WORLD, copy IERR)
    call MPI_Comm_create_errhandler(note_error, handler IERR)
    call MPI_Comm_set_errhandler(copy, handler IERR)
    call MPI_Send(out, 1, MPI_DOUBLE_PRECISION, ranks, 13, copy, error)
    call expect(errors_raised == 1 .and. raised_on == copy, 'the handler gets an error with its communicator')
    call MPI_Errhandler_free(handler IERR)
    call MPI_Comm_free(copy IERR)
    call give_back()
  end subroutine

  ! Every second element. Where subarrays are not supported, a compiler would copy them on the host.
  subroutine sections()
    real(c_double) :: received(20)
    integer :: i
    if (.not. MPI_SUBARRAYS_SUPPORTED) return
    call take_buffers(20)
    call MPI_Sendrecv(out(1::2), 10, MPI_DOUBLE_PRECISION, right, 12, in(2::2), 10, MPI_DOUBLE_PRECISION, left, 12, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE IERR)
    received = values_of(in)
    do i = 1, 10
      call expect(received(2 * i) == content(left) + 2 * i - 2, 'a section arrives in another')
      call expect(received(2 * i - 1) == 2 * i - 2, 'and nothing between')
    end do
    call give_back()
  end subroutine

  subroutine packs()
    integer :: position, error
    integer(MPI_ADDRESS_KIND) :: place
    real(c_double) :: packed(2)
    call take_buffers(1)
    position = 0
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN IERR)
    call MPI_Pack(out, 1, MPI_DOUBLE_PRECISION, packed, 16, position, MPI_COMM_WORLD, error)
    call expect(error == MPI_SUCCESS .and. position == 8, 'device memory is packed')
    place = 0
    call MPI_Pack_external('external32', out, 1, MPI_DOUBLE_PRECISION, packed, 16_MPI_ADDRESS_KIND, place, error)
    call expect(error == MPI_SUCCESS .and. place == 8, 'device memory is packed in the external form')
    call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL IERR)
    call give_back()
  end subroutine
end program
