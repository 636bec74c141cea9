// SPDX-License-Identifier: Apache-2.0
//
// Device code of device_runtime_test.cpp.

#include <fairlead/kernel.h>

FAIRLEAD_KERNEL(count_up, (unsigned* numbers, unsigned first, unsigned long count)) {
  for (auto i = fairlead::kernel::global_index(); i < count; i += fairlead::kernel::global_size()) {
    numbers[i] = first + static_cast<unsigned>(i);
  }
}

FAIRLEAD_KERNEL(run_until, (const volatile int* over)) {
  while (!*over) {
  }
}

#if !FAIRLEAD_ON_GPU
#include "device_runtime_kernel.h"

std::vector<fairlead::device::CodeImage> fairlead::test::kernel_images() {
  std::vector<device::CodeImage> images;
  for (const fairlead_code_image& image : kernel::images_of_this_source) {
    images.push_back({image.target, image.bytes, image.size});
  }
  return images;
}
#endif
