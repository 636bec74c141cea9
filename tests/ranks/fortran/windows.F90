! SPDX-License-Identifier: Apache-2.0
!
! Windows of Fortran ranks on device memory: their attributes, which are numbers here, and memory that MPI allocates,
! whose address is a TYPE(C_PTR) where the binding knows it.

#include "bindings.h"

#if defined(WITH_MPIF_H)
#define AN_ADDRESS integer(MPI_ADDRESS_KIND)
#define AS_POINTER(address) transfer(address, c_null_ptr)
#else
#define AN_ADDRESS type(c_ptr)
#define AS_POINTER(address) address
#endif

program windows
  USE_MPI
  use buffers
  use job
  implicit none
  INCLUDE_MPI

  integer, parameter :: n = 1000
  integer :: ranks, next, previous, ierror

  ranks = begin_job()
  next = mod(my_rank + 1, ranks)
  previous = mod(my_rank + ranks - 1, ranks)
  call attributes()
  call accesses()
  call allocated_memory()
  call shared_memory()
  call kinds_of_memory()
  call end_job()

contains
  integer function content(of_rank)
    integer, intent(in) :: of_rank
    content = 10000 * (of_rank + 1)
  end function

  integer(c_intptr_t) function number_of(address)
    type(c_ptr), intent(in) :: address
    number_of = transfer(address, 0_c_intptr_t)
  end function

  ! What a window of the host MPI tells is the host MPI's.
  subroutine attributes()
    A_WIN :: window
    real(c_double), pointer, contiguous :: exposed(:)
    integer(MPI_ADDRESS_KIND) :: told
    integer :: keyval
    logical :: found
    exposed => counting_from(content(my_rank), n)
    call MPI_Win_create(exposed, 8_MPI_ADDRESS_KIND * n, 8, MPI_INFO_NULL, MPI_COMM_WORLD, window IERR)
    call MPI_Win_get_attr(window, MPI_WIN_BASE, told, found IERR)
    call expect(found .and. told == number_of(c_loc(exposed)), 'MPI_WIN_BASE')
    call MPI_Win_get_attr(window, MPI_WIN_SIZE, told, found IERR)
    call expect(found .and. told == 8 * n, 'MPI_WIN_SIZE')
    call MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, told, found IERR)
    call expect(found .and. told == 8, 'MPI_WIN_DISP_UNIT')
    call MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, told, found IERR)
    call expect(found .and. told == MPI_WIN_FLAVOR_CREATE, 'MPI_WIN_CREATE_FLAVOR')
    call MPI_Win_get_attr(window, MPI_WIN_MODEL, told, found IERR)
    call expect(found .and. (told == MPI_WIN_UNIFIED .or. told == MPI_WIN_SEPARATE), 'MPI_WIN_MODEL')
    call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, keyval, 0_MPI_ADDRESS_KIND IERR)
    call MPI_Win_get_attr(window, keyval, told, found IERR)
    call expect(.not. found, 'an attribute that nobody has set')
    call MPI_Win_set_attr(window, keyval, 4711_MPI_ADDRESS_KIND IERR)
    call MPI_Win_get_attr(window, keyval, told, found IERR)
    call expect(found .and. told == 4711, 'an attribute of the program')
    call MPI_Win_free_keyval(keyval IERR)
    call MPI_Win_free(window IERR)
    call release(exposed)
  end subroutine

  subroutine accesses()
    A_WIN :: window
    real(c_double), pointer, contiguous :: exposed(:), mine(:), got(:)
    exposed => counting_from(0, n)
    mine => counting_from(content(my_rank), n)
    got => counting_from(0, n)
    call MPI_Win_create(exposed, 8_MPI_ADDRESS_KIND * n, 8, MPI_INFO_NULL, MPI_COMM_WORLD, window IERR)
    call MPI_Win_fence(0, window IERR)
    call MPI_Put(mine, n, MPI_DOUBLE_PRECISION, next, 0_MPI_ADDRESS_KIND, n, MPI_DOUBLE_PRECISION, window IERR)
    call MPI_Win_fence(0, window IERR)
    call expect_counting(exposed, content(previous), 'MPI_Put')
    call MPI_Get(got, n, MPI_DOUBLE_PRECISION, next, 0_MPI_ADDRESS_KIND, n, MPI_DOUBLE_PRECISION, window IERR)
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, window IERR)
    call expect_counting(got, content(my_rank), 'MPI_Get')
    call MPI_Win_free(window IERR)
    call release(exposed)
    call release(mine)
    call release(got)
  end subroutine

  subroutine make_info(info)
    AN_INFO, intent(out) :: info
    call MPI_Info_create(info IERR)
    call MPI_Info_set(info, 'alloc_shared_noncontig', 'true' IERR)
    if (.not. in_host_memory()) call MPI_Info_set(info, 'fairlead_win_allocate', 'device' IERR)
  end subroutine

  ! A window, which may restrict them, and the environment tell them.
  subroutine kinds_of_memory()
    AN_INFO :: info
    A_WIN :: window
    character(len=MPI_MAX_INFO_VAL) :: of_window, of_environment
    character(len=MPI_MAX_INFO_KEY) :: name
    real(c_double), pointer, contiguous :: exposed(:)
    integer :: keys, i, times, length
    logical :: found
    if (in_host_memory()) return
    call MPI_Info_get(MPI_INFO_ENV, 'mpi_memory_alloc_kinds', MPI_MAX_INFO_VAL, of_environment, found IERR)
    call expect(found .and. index(of_environment, 'mpi,system,') == 1 .and. index(of_environment, ':device') > 0, &
                'MPI_INFO_ENV')
    call MPI_Info_get_valuelen(MPI_INFO_ENV, 'mpi_memory_alloc_kinds', length, found IERR)
    call expect(found .and. length == len_trim(of_environment), 'MPI_Info_get_valuelen')
    call MPI_Info_get_nkeys(MPI_INFO_ENV, keys IERR)
    times = 0
    do i = 0, keys - 1
      call MPI_Info_get_nthkey(MPI_INFO_ENV, i, name IERR)
      if (name == 'mpi_memory_alloc_kinds') times = times + 1
    end do
    call expect(times == 1, 'MPI_Info_get_nthkey')
    call MPI_Info_dup(MPI_INFO_ENV, info IERR)
    call MPI_Info_get(info, 'mpi_memory_alloc_kinds', MPI_MAX_INFO_VAL, of_window, found IERR)
    call expect(found .and. of_window == of_environment, 'MPI_Info_dup')
    call MPI_Info_free(info IERR)
    exposed => counting_from(0, n)
    call MPI_Win_create(exposed, 8_MPI_ADDRESS_KIND * n, 8, MPI_INFO_NULL, MPI_COMM_WORLD, window IERR)
    call told_of(window, of_window)
    call expect(of_window == of_environment, 'MPI_Win_get_info')
    call MPI_Info_create(info IERR)
    call MPI_Info_set(info, 'mpi_assert_memory_alloc_kinds', 'system' IERR)
    call MPI_Win_set_info(window, info IERR)
    call MPI_Info_free(info IERR)
    call told_of(window, of_window)
    call expect(of_window == 'system', 'MPI_Win_set_info')
    call MPI_Win_free(window IERR)
    call release(exposed)
  end subroutine

  subroutine told_of(window, kinds)
    A_WIN, intent(in) :: window
    character(len=*), intent(out) :: kinds
    AN_INFO :: info
    logical :: found
    kinds = ''
    call MPI_Win_get_info(window, info IERR)
    call MPI_Info_get(info, 'mpi_memory_alloc_kinds', MPI_MAX_INFO_VAL, kinds, found IERR)
    call MPI_Info_free(info IERR)
  end subroutine

  subroutine fill(memory, base)
    type(c_ptr), intent(in) :: memory
    integer, intent(in) :: base
    real(c_double), pointer, contiguous :: from(:)
    from => counting_from(base, n)
    call copy(memory, c_loc(from), n)
    call release(from)
  end subroutine

  subroutine expect_in(memory, base, what)
    type(c_ptr), intent(in) :: memory
    integer, intent(in) :: base
    character(len=*), intent(in) :: what
    real(c_double), pointer, contiguous :: there(:)
    call c_f_pointer(memory, there, [n])
    call expect_counting(there, base, what)
  end subroutine

  subroutine allocated_memory()
    A_WIN :: window
    AN_INFO :: info
    AN_ADDRESS :: address
    real(c_double), pointer, contiguous :: mine(:)
    integer(MPI_ADDRESS_KIND) :: told
    logical :: found
    mine => counting_from(content(my_rank), n)
    call make_info(info)
    call MPI_Win_allocate(8_MPI_ADDRESS_KIND * n, 8, info, MPI_COMM_WORLD, address, window IERR)
    call MPI_Info_free(info IERR)
    call MPI_Win_get_attr(window, MPI_WIN_BASE, told, found IERR)
    call expect(found .and. told == number_of(AS_POINTER(address)), 'MPI_WIN_BASE of allocated memory')
    call MPI_Win_lock_all(0, window IERR)
    call MPI_Put(mine, n, MPI_DOUBLE_PRECISION, next, 0_MPI_ADDRESS_KIND, n, MPI_DOUBLE_PRECISION, window IERR)
    call MPI_Win_unlock_all(window IERR)
    call MPI_Barrier(MPI_COMM_WORLD IERR)
    call expect_in(AS_POINTER(address), content(previous), 'MPI_Put into allocated memory')
    call MPI_Win_free(window IERR)
    call release(mine)
  end subroutine

  subroutine shared_memory()
    A_WIN :: window
    AN_INFO :: info
    AN_ADDRESS :: address, there
    integer(MPI_ADDRESS_KIND) :: bytes
    integer :: unit, other
    call make_info(info)
    call MPI_Win_allocate_shared(8_MPI_ADDRESS_KIND * n, 8, info, MPI_COMM_WORLD, address, window IERR)
    call MPI_Info_free(info IERR)
    call fill(AS_POINTER(address), content(my_rank))
    call MPI_Win_fence(0, window IERR)
    do other = 0, ranks - 1
      call MPI_Win_shared_query(window, other, bytes, unit, there IERR)
      ! Open MPI 4.1 itself tells of whole pages.
      call expect(bytes == 8 * n .or. (in_host_memory() .and. bytes > 8 * n), 'the size that MPI_Win_shared_query tells')
      call expect(unit == 8, 'the unit that MPI_Win_shared_query tells')
      if (c_associated(AS_POINTER(there))) call expect_in(AS_POINTER(there), content(other), 'what a rank shows')
      if (other == my_rank) call expect(number_of(AS_POINTER(there)) == number_of(AS_POINTER(address)), 'the base')
    end do
    call MPI_Win_fence(MPI_MODE_NOSUCCEED, window IERR)
    call MPI_Win_free(window IERR)
  end subroutine
end program
