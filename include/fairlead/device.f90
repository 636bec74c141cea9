! SPDX-License-Identifier: Apache-2.0
!
! The device memory of device.h for Fortran. Compile this file with the program, and link fairlead::device.
!
!     use fairlead_device
!     type(c_ptr) :: memory
!     real(c_double), pointer, contiguous :: field(:)
!     error = fairlead_device_malloc(memory, n * c_sizeof(0d0))
!     call c_f_pointer(memory, field, [n])
!
! MPI accepts such a pointer; the host must not read or write the memory it points to.

module fairlead_device
  use, intrinsic :: iso_c_binding
  implicit none

  interface
    function fairlead_device_count() bind(c) result(devices)
      import :: c_int
      integer(c_int) :: devices
    end function
    function fairlead_device_set(device) bind(c) result(error)
      import :: c_int
      integer(c_int), value :: device
      integer(c_int) :: error
    end function
    function fairlead_device_malloc(address, bytes) bind(c) result(error)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), intent(out) :: address
      integer(c_size_t), value :: bytes
      integer(c_int) :: error
    end function
    function fairlead_device_malloc_managed(address, bytes) bind(c) result(error)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), intent(out) :: address
      integer(c_size_t), value :: bytes
      integer(c_int) :: error
    end function
    function fairlead_device_free(address) bind(c) result(error)
      import :: c_int, c_ptr
      type(c_ptr), value :: address
      integer(c_int) :: error
    end function
    ! The host side of a copy is c_loc() of an array with the target attribute.
    function fairlead_device_copy(to, from, bytes) bind(c) result(error)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: to, from
      integer(c_size_t), value :: bytes
      integer(c_int) :: error
    end function
    function fairlead_device_fill(to, byte, bytes) bind(c) result(error)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: to
      integer(c_int), value :: byte
      integer(c_size_t), value :: bytes
      integer(c_int) :: error
    end function
    function fairlead_device_synchronize() bind(c) result(error)
      import :: c_int
      integer(c_int) :: error
    end function
  end interface
end module
