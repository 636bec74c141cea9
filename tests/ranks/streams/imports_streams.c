// SPDX-License-Identifier: Apache-2.0
//
// Without fairlead/stream.h, whose functions would be found by dlsym() under MPIs that have none.

int MPIX_Stream_comm_create(void) __attribute__((weak));

int stream_functions_are_imported(void) {
  return MPIX_Stream_comm_create != 0;
}
