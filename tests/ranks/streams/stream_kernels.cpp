// SPDX-License-Identifier: Apache-2.0
//
// Kernels that have memory in their hands for as long as a test likes.

#include <fairlead/kernel.h>

// Runs until *over is not 0, then writes the first byte.
FAIRLEAD_KERNEL(write_when_over, (const volatile int* over, unsigned char* memory)) {
  while (!*over) {
  }
  *memory = *memory;
}

// The same, and reads it.
FAIRLEAD_KERNEL(read_when_over, (const volatile int* over, const volatile unsigned char* memory)) {
  while (!*over) {
  }
  (void)*memory;
}

FAIRLEAD_KERNEL(write_byte, (unsigned char* memory)) {
  *memory = 1;
}
