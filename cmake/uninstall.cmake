# SPDX-License-Identifier: Apache-2.0
#
# Removes the files of the last `cmake --install` of a build folder, and the folders of Fairlead's own that are empty
# then. Run by `cmake --build build --target uninstall`, with MANIFEST; DESTDIR as for the installation.

if(NOT EXISTS ${MANIFEST})
  message(FATAL_ERROR "${MANIFEST} does not exist: nothing was installed from this build folder")
endif()
file(STRINGS ${MANIFEST} files ENCODING UTF-8)
set(removed 0)
foreach(file IN LISTS files)
  set(file $ENV{DESTDIR}${file})
  if(EXISTS ${file} OR IS_SYMLINK ${file})
    file(REMOVE ${file})
    math(EXPR removed "${removed} + 1")
  endif()
  # A folder with this name in its path below bin, lib or share is no other package's.
  get_filename_component(folder ${file} DIRECTORY)
  while(folder MATCHES "/(include|lib[^/]*|share)/([^/]+/)*fairlead(/|$)")
    file(GLOB left ${folder}/*)
    if(left OR NOT IS_DIRECTORY ${folder})
      break()
    endif()
    file(REMOVE_RECURSE ${folder})
    get_filename_component(folder ${folder} DIRECTORY)
  endwhile()
endforeach()
message(STATUS "Removed ${removed} files")
