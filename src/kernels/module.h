// SPDX-License-Identifier: Apache-2.0
//
// How launch.cpp accesses the code of a kernel source. Each source ends with
// FAIRLEAD_MODULE_IMAGES(function), which defines the function that returns its code images. Such sources
// define FAIRLEAD_PRIVATE_KERNELS, because programs that use fairlead_device_launch() must not find the
// library's kernels by names of their own.

#pragma once

#include <fairlead/kernel.h>

#if FAIRLEAD_ON_GPU

#define FAIRLEAD_MODULE_IMAGES(function)

#else

namespace fairlead::kernels {

struct ModuleImages {
  const fairlead_code_image* first;
  unsigned long count;
};

}  // namespace fairlead::kernels

#define FAIRLEAD_MODULE_IMAGES(function)                                         \
  namespace fairlead::kernels {                                                  \
  ModuleImages function();                                                       \
  ModuleImages function() {                                                      \
    return {kernel::images_of_this_source,                                       \
            sizeof kernel::images_of_this_source / sizeof(fairlead_code_image)}; \
  }                                                                              \
  }

#endif
