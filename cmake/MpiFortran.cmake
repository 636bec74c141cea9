# SPDX-License-Identifier: Apache-2.0
#
# Finds the Fortran side of the MPIs that Mpi.cmake found, for examples and tests; the libraries need none:
#
#   FAIRLEAD_FORTRAN_MPIS              the ABIs whose MPI has modules that this Fortran compiler reads
#   fairlead_mpi_fortran::<abi>        what a Fortran program of that MPI compiles and links with
#
# The wrapper mpifort is looked for beside mpicc, by the same suffix.

set(FAIRLEAD_FORTRAN_MPIS)
include(CheckLanguage)
# What CMake did not find at an earlier configuration may have been installed since.
if(NOT CMAKE_Fortran_COMPILER)
  unset(CMAKE_Fortran_COMPILER CACHE)
endif()
check_language(Fortran)
if(NOT CMAKE_Fortran_COMPILER)
  message(STATUS "Fortran examples and tests are left out: no Fortran compiler (Debian: gfortran)")
  return()
endif()
enable_language(Fortran)

function(_fairlead_inspect_mpifort abi)
  get_filename_component(bin ${FAIRLEAD_MPICC_${abi}} DIRECTORY)
  get_filename_component(name ${FAIRLEAD_MPICC_${abi}} NAME)
  string(REGEX MATCH "\\..*$" suffix ${name})
  find_program(FAIRLEAD_MPIFORT_${abi} NAMES mpifort${suffix} HINTS ${bin} NO_DEFAULT_PATH)
  mark_as_advanced(FAIRLEAD_MPIFORT_${abi})
  if(NOT FAIRLEAD_MPIFORT_${abi})
    message(STATUS "Fortran examples and tests for ABI ${abi} are left out: no mpifort${suffix} in ${bin}")
    return()
  endif()
  execute_process(COMMAND ${FAIRLEAD_MPIFORT_${abi}} -show OUTPUT_VARIABLE line OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "-Wl,-rpath -Wl,/" "-Wl,-rpath,/" line "${line}")
  separate_arguments(words UNIX_COMMAND "${line}")
  set(includes ${words})
  list(FILTER includes INCLUDE REGEX "^-I")
  set(links ${words})
  list(FILTER links INCLUDE REGEX "^-(L|l|Wl,-rpath|Wl,--enable-new-dtags|Wl,-z)|\\.so")

  set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/fairlead_mpi_probe.f90)
  file(WRITE ${probe} "program probe\n  use mpi_f08\nend program\n")
  execute_process(COMMAND ${CMAKE_Fortran_COMPILER} -fsyntax-only ${includes} ${probe} RESULT_VARIABLE failed
                  OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    message(STATUS "Fortran examples and tests for ABI ${abi} are left out: ${CMAKE_Fortran_COMPILER} cannot use its module mpi_f08")
    return()
  endif()
  add_library(fairlead_mpi_fortran_${abi} INTERFACE)
  add_library(fairlead_mpi_fortran::${abi} ALIAS fairlead_mpi_fortran_${abi})
  target_compile_options(fairlead_mpi_fortran_${abi} INTERFACE ${includes})
  target_link_libraries(fairlead_mpi_fortran_${abi} INTERFACE ${links})
  set(FAIRLEAD_FORTRAN_MPIS ${FAIRLEAD_FORTRAN_MPIS} ${abi} PARENT_SCOPE)
endfunction()

foreach(abi IN LISTS FAIRLEAD_MPIS)
  _fairlead_inspect_mpifort(${abi})
endforeach()
