# SPDX-License-Identifier: Apache-2.0
#
# Run by each build: writes the commit that the sources are at, as C++, where it has changed.
#
#   cmake -DSOURCE=<folder> -DOUTPUT=<file.cpp> [-DCOMMIT=<commit>] [-DGIT=<git>] -P Commit.cmake
#
# Of a tarball, also one unpacked inside another repository, the commit is COMMIT, or "unknown".

set(commit unknown)
if(COMMIT)
  set(commit ${COMMIT})
elseif(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --exclude "*" --abbrev=12 --dirty=+changes
                  OUTPUT_VARIABLE told RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed)
    set(commit ${told})
  endif()
endif()
set(text "#include \"base/commit.h\"\n\nconst char* fairlead::built_from_commit() {\n  return \"${commit}\";\n}\n")
set(known "")
if(EXISTS ${OUTPUT})
  file(READ ${OUTPUT} known)
endif()
if(NOT known STREQUAL text)
  file(WRITE ${OUTPUT} "${text}")
endif()
