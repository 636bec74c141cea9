// SPDX-License-Identifier: Apache-2.0
//
// Device code of code_object_test.cpp. Nothing runs it.

#include <fairlead/kernel.h>

struct Field {
  int width;
  double* data;
};

FAIRLEAD_KERNEL(every_kind, (char small, Field field, const double* from, double* to, unsigned short last)) {
  *to = *from + small + *field.data + last;
#ifdef __AMDGCN__
  // With parameters that the compiler adds, as most kernels of HIP have.
  *to += *(const int*)(__builtin_amdgcn_implicitarg_ptr());
#endif
}
// Text of this length is encoded otherwise.
FAIRLEAD_KERNEL(a_name_of_more_than_thirty_one_characters, (int* to)) {
  *to = 1;
}

#if !FAIRLEAD_ON_GPU
#include "code_object_kernels.h"

const std::vector<fairlead_code_image>& fairlead::test::code_images() {
  static const std::vector<fairlead_code_image> images(std::begin(kernel::images_of_this_source),
                                                       std::end(kernel::images_of_this_source));
  return images;
}
#endif
