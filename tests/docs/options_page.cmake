# SPDX-License-Identifier: Apache-2.0
#
# docs/options.md is what `fairlead options --markdown` prints.

execute_process(COMMAND ${FAIRLEAD} options --markdown OUTPUT_VARIABLE printed COMMAND_ERROR_IS_FATAL ANY)
file(READ ${PAGE} page)
if(NOT printed STREQUAL page)
  message(FATAL_ERROR "${PAGE} is not current; make it again: fairlead options --markdown > docs/options.md")
endif()
