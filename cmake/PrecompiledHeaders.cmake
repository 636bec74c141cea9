# SPDX-License-Identifier: Apache-2.0
#
# Half of a build goes into parsing the same headers again. With FAIRLEAD_PRECOMPILED_HEADERS each target does that
# once. Sources include what they use all the same; a build without it shows whether they do.

option(FAIRLEAD_PRECOMPILED_HEADERS "Parse the headers of libraries once per target" ON)
# One compiler run for several sources, but not with -DCMAKE_UNITY_BUILD=OFF.
set(FAIRLEAD_UNITY_BUILD ON)
if(DEFINED CMAKE_UNITY_BUILD)
  set(FAIRLEAD_UNITY_BUILD ${CMAKE_UNITY_BUILD})
endif()

# fairlead_precompile(<target> [<header>...])
# The standard library's, and these.
function(fairlead_precompile target)
  if(NOT FAIRLEAD_PRECOMPILED_HEADERS)
    return()
  endif()
  set(headers algorithm atomic chrono cstdint cstdio cstring functional map memory mutex optional set string
      unordered_map utility vector ${ARGN})
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# fairlead_compile_folders(<target>)
# One compiler run for all sources of a folder, whose headers cost more than what they hold.
function(fairlead_compile_folders target)
  if(NOT FAIRLEAD_UNITY_BUILD)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
