// SPDX-License-Identifier: Apache-2.0
//
// A library whose reference to getppid() is replaced (imported_symbols_test.cpp). On AArch64 the processor
// ends programs that branch into it elsewhere than at a marked place.

#include <unistd.h>

__attribute__((visibility("default"))) pid_t parent(void) {
  return getppid();
}

__attribute__((visibility("default"))) pid_t replacement(void) {
  return -7;
}
