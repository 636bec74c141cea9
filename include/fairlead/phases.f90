! SPDX-License-Identifier: Apache-2.0
!
! Marks the phases of a Fortran program, like phases.h for C programs. Compile this file with the program. It
! links no library; if Fairlead is not loaded, the calls have no effect.
!
!     use fairlead_phases
!     call fairlead_phase_begin("halo exchange")
!     ...
!     call fairlead_phase_end()

module fairlead_phases
  use, intrinsic :: iso_c_binding
  implicit none
  private
  public :: fairlead_phase_begin, fairlead_phase_end

  abstract interface
    subroutine begin_function(name) bind(c)
      import :: c_char
      character(kind=c_char), intent(in) :: name(*)
    end subroutine
    subroutine end_function() bind(c)
    end subroutine
  end interface

  interface
    function dlopen(file, flags) bind(c) result(handle)
      import :: c_ptr, c_int
      type(c_ptr), value :: file
      integer(c_int), value :: flags
      type(c_ptr) :: handle
    end function
    function dlsym(handle, name) bind(c) result(address)
      import :: c_ptr, c_funptr, c_char
      type(c_ptr), value :: handle
      character(kind=c_char), intent(in) :: name(*)
      type(c_funptr) :: address
    end function
  end interface

  integer(c_int), parameter :: rtld_lazy = 1

contains

  function find(name) result(address)
    character(len=*), intent(in) :: name
    type(c_funptr) :: address
    address = dlsym(dlopen(c_null_ptr, rtld_lazy), name // c_null_char)
  end function

  subroutine fairlead_phase_begin(name)
    character(len=*), intent(in) :: name
    procedure(begin_function), pointer :: begin_phase
    type(c_funptr) :: address
    address = find("fairlead_phase_begin")
    if (.not. c_associated(address)) return
    call c_f_procpointer(address, begin_phase)
    call begin_phase(trim(name) // c_null_char)
  end subroutine

  subroutine fairlead_phase_end()
    procedure(end_function), pointer :: end_phase
    type(c_funptr) :: address
    address = find("fairlead_phase_end")
    if (.not. c_associated(address)) return
    call c_f_procpointer(address, end_phase)
    call end_phase()
  end subroutine

end module
