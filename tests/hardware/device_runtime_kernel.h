// SPDX-License-Identifier: Apache-2.0
//
// The kernels of device_runtime_test.cpp: their code for every target of this build.

#pragma once

#include <vector>

#include "device/runtime.h"

namespace fairlead::test {

// "count_up"(unsigned* numbers, unsigned first, unsigned long count): numbers[i] = first + i, for i below
// count. "run_until"(const volatile int* over): runs until *over is not 0.
std::vector<device::CodeImage> kernel_images();

}  // namespace fairlead::test
