// SPDX-License-Identifier: Apache-2.0
//
// The kernel of device_runtime_test.cpp, and its code for every target of this build.

#pragma once

#include <vector>

#include "device/runtime.h"

namespace fairlead::test {

// numbers[i] = first + i, for i below count: kernel "count_up"(unsigned* numbers, unsigned first, unsigned
// long count).
std::vector<device::CodeImage> count_up_images();

}  // namespace fairlead::test
