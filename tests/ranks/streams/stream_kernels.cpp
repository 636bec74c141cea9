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

#ifdef __AMDGCN__
// As hipcc compiles kernels: their names tell the types of their parameters.
namespace hip_program {

__attribute__((global)) void write_byte(unsigned char* memory) {
  *memory = 1;
}
__attribute__((global)) void read_when_over(const int* over, const unsigned char* memory) {
  while (!*static_cast<const volatile int*>(over)) {
  }
  (void)*memory;
}

}  // namespace hip_program
#endif

#if !FAIRLEAD_ON_GPU
#include "streams/stream_kernels.h"

std::vector<fairlead_code_image> ranks::stream_kernel_images() {
  return {std::begin(fairlead::kernel::images_of_this_source),
          std::end(fairlead::kernel::images_of_this_source)};
}
#endif
