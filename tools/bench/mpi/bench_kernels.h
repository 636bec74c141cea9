// SPDX-License-Identifier: Apache-2.0
//
// Device code of the benchmarks' own kernels: `empty` takes an unsigned number and does nothing,
// `compute_rounds` takes an array of a float for each thread and a number of rounds of arithmetic. count_*
// and add_*, for one thread, take the address of an element and that of a sum.

#pragma once

#include <vector>

#include "device/runtime.h"

namespace fairlead::tools {

const std::vector<device::CodeImage>& bench_kernel_images();

}  // namespace fairlead::tools
