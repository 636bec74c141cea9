// SPDX-License-Identifier: Apache-2.0
//
// What launching a kernel costs is measured with one that does nothing.

#include <fairlead/kernel.h>

FAIRLEAD_KERNEL(fairlead_bench_empty, (unsigned)) {}
