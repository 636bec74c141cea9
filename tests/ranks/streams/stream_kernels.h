// SPDX-License-Identifier: Apache-2.0
//
// The code of stream_kernels.cpp for every target of this build.

#pragma once

#include <fairlead/kernel.h>

#include <vector>

namespace ranks {

std::vector<fairlead_code_image> stream_kernel_images();

}  // namespace ranks
