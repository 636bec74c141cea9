// SPDX-License-Identifier: Apache-2.0
//
// What launching a kernel costs is measured with one that does nothing, what computation hides with one that
// only computes.

#define FAIRLEAD_PRIVATE_KERNELS
#include <fairlead/kernel.h>

FAIRLEAD_KERNEL(empty, (unsigned)) {}

// Each round needs the one before. It reads and writes memory once, because copies may use all of the
// memory's bandwidth meanwhile.
FAIRLEAD_KERNEL(compute_rounds, (float* kept, unsigned long rounds)) {
  float value = kept[fairlead::kernel::global_index()];
  for (unsigned long round = 0; round < rounds; ++round) value = value * 0.9999999f + 1e-9f;
  kept[fairlead::kernel::global_index()] = value;
}

#if !FAIRLEAD_ON_GPU
#include "bench/mpi/bench_kernels.h"

const std::vector<fairlead::device::CodeImage>& fairlead::tools::bench_kernel_images() {
  static const auto all = [] {
    std::vector<device::CodeImage> images;
    for (const fairlead_code_image& image : kernel::images_of_this_source)
      images.push_back({image.target, image.bytes, image.size});
    return images;
  }();
  return all;
}
#endif
