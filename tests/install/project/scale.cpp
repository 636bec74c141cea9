// SPDX-License-Identifier: Apache-2.0
//
// A user's kernel.

#include <fairlead/kernel.h>

FAIRLEAD_KERNEL(scale, (double* x, double factor, unsigned long n)) {
  for (unsigned long i = fairlead::kernel::global_index(); i < n; i += fairlead::kernel::global_size())
    x[i] *= factor;
}
