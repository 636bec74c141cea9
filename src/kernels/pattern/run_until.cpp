// SPDX-License-Identifier: Apache-2.0
//
// A kernel that runs until the host sets *over, in pinned memory, to a value other than 0. Used by tests.

#include <fairlead/kernel.h>

FAIRLEAD_KERNEL(run_until, (const volatile int* over)) {
  while (!*over) {
  }
}
