! SPDX-License-Identifier: Apache-2.0
!
! The phase of observed.cpp that a Fortran program would mark.

subroutine begin_reductions() bind(c)
  use fairlead_phases
  call fairlead_phase_begin("reductions ")
end subroutine

subroutine end_reductions() bind(c)
  use fairlead_phases
  call fairlead_phase_end()
end subroutine
