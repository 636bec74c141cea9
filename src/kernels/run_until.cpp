// SPDX-License-Identifier: Apache-2.0
//
// A kernel that runs for as long as the host wants: until *over, in pinned memory, is not 0. Used by tests.

#include <fairlead/kernel.h>

FAIRLEAD_KERNEL(run_until, (const volatile int* over)) {
  while (!*over) {
  }
}
