# SPDX-License-Identifier: Apache-2.0
#
# Plain Python scripts: the manifest against its committed output, the symbols of the libraries and the headers of the
# MPIs, and the floors of src against its includes.

find_package(Python3 3.9 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(STATUS "Tests of the manifest are left out: no Python 3.9 or newer")
  return()
endif()
add_test(NAME manifest_is_current
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/src/mpi/abi/generate.py --check)
foreach(abi IN LISTS FAIRLEAD_MPIS)
  if(TARGET fairlead-${abi})
    add_test(NAME exports_match_manifest_${abi}
      COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/unit/manifest_test.py $<TARGET_FILE:fairlead-${abi}>)
  endif()
endforeach()

add_test(NAME includes_go_down
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/unit/floors_test.py ${PROJECT_SOURCE_DIR}/src)
add_test(NAME environment_is_read_in_one_place
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/unit/environment_test.py ${PROJECT_SOURCE_DIR}/src)
add_test(NAME quirks_are_listed
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/unit/quirks_test.py)

# Headers of newer MPIs: packaging/compile-against-headers.
foreach(abi IN LISTS FAIRLEAD_MPIS)
  add_test(NAME every_function_has_a_row_${abi}
    COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/unit/coverage_test.py ${CMAKE_CXX_COMPILER}
      "-I$<JOIN:$<TARGET_PROPERTY:fairlead_mpi_${abi},INTERFACE_INCLUDE_DIRECTORIES>,;-I>"
    COMMAND_EXPAND_LISTS)
endforeach()
