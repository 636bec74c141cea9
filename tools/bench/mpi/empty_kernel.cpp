// SPDX-License-Identifier: Apache-2.0
//
// What launching a kernel costs is measured with one that does nothing.

#define FAIRLEAD_PRIVATE_KERNELS
#include <fairlead/kernel.h>

FAIRLEAD_KERNEL(empty, (unsigned)) {}

#if !FAIRLEAD_ON_GPU
#include "bench/mpi/empty_kernel.h"

const std::vector<fairlead::device::CodeImage>& fairlead::tools::empty_kernel_images() {
  static const auto all = [] {
    std::vector<device::CodeImage> images;
    for (const fairlead_code_image& image : kernel::images_of_this_source)
      images.push_back({image.target, image.bytes, image.size});
    return images;
  }();
  return all;
}
#endif
