# SPDX-License-Identifier: Apache-2.0
#
# PAGE is what PROGRAM prints, given ARGUMENTS.

execute_process(COMMAND ${PROGRAM} ${ARGUMENTS} OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PAGE} page)
if(NOT printed STREQUAL page)
  string(REPLACE ";" " " words "${ARGUMENTS}")
  message(FATAL_ERROR "${PAGE} is not current; make it again: ${PROGRAM} ${words} > ${PAGE}")
endif()
