# SPDX-License-Identifier: Apache-2.0
#
# The manifest against its committed output, and against the symbols of the libraries. Plain Python scripts.

find_package(Python3 3.9 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  message(STATUS "Tests of the manifest are left out: no Python 3.9 or newer")
  return()
endif()
add_test(NAME manifest_is_current
  COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/src/mpi/generate.py --check)
foreach(abi IN LISTS FAIRLEAD_MPIS)
  if(TARGET fairlead-${abi})
    add_test(NAME exports_match_manifest_${abi}
      COMMAND Python3::Interpreter ${PROJECT_SOURCE_DIR}/tests/unit/manifest_test.py $<TARGET_FILE:fairlead-${abi}>)
  endif()
endforeach()
