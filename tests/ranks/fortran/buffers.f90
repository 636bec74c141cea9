! SPDX-License-Identifier: Apache-2.0
!
! Buffers in device memory whose contents are known, and the counting of failures. TEST_MEMORY=host takes host
! memory instead, for a job without GPUs.

module buffers
  use fairlead_device
  implicit none

  integer :: my_rank = 0, failures = 0

  interface
    function malloc(bytes) bind(c) result(address)
      import :: c_ptr, c_size_t
      integer(c_size_t), value :: bytes
      type(c_ptr) :: address
    end function
    subroutine free(address) bind(c)
      import :: c_ptr
      type(c_ptr), value :: address
    end subroutine
    subroutine memcpy(to, from, bytes) bind(c)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
    end subroutine
  end interface

contains
  logical function in_host_memory()
    character(len=8) :: kind
    call get_environment_variable('TEST_MEMORY', kind)
    in_host_memory = kind == 'host'
  end function

  subroutine expect(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    failures = failures + 1
    print '(a,i0,2a)', 'rank ', my_rank, ': FAILED: ', what
  end subroutine

  subroutine copy(to, from, elements)
    type(c_ptr), intent(in) :: to, from
    integer, intent(in) :: elements
    if (in_host_memory()) then
      call memcpy(to, from, 8_c_size_t * elements)
    else if (fairlead_device_copy(to, from, 8_c_size_t * elements) /= 0) then
      error stop 'a copy of the test failed'
    end if
  end subroutine

  function allocated(elements) result(memory)
    integer, intent(in) :: elements
    type(c_ptr) :: memory
    if (in_host_memory()) then
      memory = malloc(8_c_size_t * elements)
    else if (fairlead_device_malloc(memory, 8_c_size_t * elements) /= 0) then
      error stop 'no device memory for the test'
    end if
  end function

  ! base, base + 1, base + 2, ...
  function counting_from(base, elements) result(buffer)
    integer, intent(in) :: base, elements
    real(c_double), pointer, contiguous :: buffer(:)
    real(c_double), target :: values(elements)
    type(c_ptr) :: memory
    integer :: i
    values = [(real(base + i - 1, c_double), i = 1, elements)]
    memory = allocated(elements)
    call copy(memory, c_loc(values), elements)
    call c_f_pointer(memory, buffer, [elements])
  end function

  ! The same memory, as complex numbers.
  function pairs_of(buffer) result(pairs)
    real(c_double), pointer, contiguous, intent(in) :: buffer(:)
    complex(c_double_complex), pointer, contiguous :: pairs(:)
    type(c_ptr) :: memory
    memory = c_loc(buffer)
    call c_f_pointer(memory, pairs, [size(buffer) / 2])
  end function

  function values_of(buffer) result(values)
    real(c_double), pointer, contiguous, intent(in) :: buffer(:)
    real(c_double), target :: values(size(buffer))
    call copy(c_loc(values), c_loc(buffer), size(buffer))
  end function

  subroutine expect_counting(buffer, base, what)
    real(c_double), pointer, contiguous, intent(in) :: buffer(:)
    integer, intent(in) :: base
    character(len=*), intent(in) :: what
    integer :: i
    call expect(all(values_of(buffer) == [(real(base + i - 1, c_double), i = 1, size(buffer))]), what)
  end subroutine

  subroutine release(buffer)
    real(c_double), pointer, contiguous, intent(inout) :: buffer(:)
    if (in_host_memory()) then
      call free(c_loc(buffer))
    else if (fairlead_device_free(c_loc(buffer)) /= 0) then
      error stop 'device memory of the test could not be freed'
    end if
    nullify(buffer)
  end subroutine
end module
