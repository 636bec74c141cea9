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

// A step of a chain: the first sets what is sent, which counts the steps, the second adds what was received,
// in which each step thus differs.
FAIRLEAD_KERNEL(count_byte, (unsigned char* sent, unsigned long*)) {
  ++*sent;
}
FAIRLEAD_KERNEL(add_byte, (unsigned char* received, unsigned long* sum)) {
  *sum += *received;
}
// Floats hold these numbers, and their sums over many ranks, exactly.
FAIRLEAD_KERNEL(count_float, (float* sent, unsigned long*)) {
  *sent = *sent < 1000 ? *sent + 1 : 0;
}
FAIRLEAD_KERNEL(add_float, (float* received, unsigned long* sum)) {
  *sum += static_cast<unsigned long>(*received);
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
