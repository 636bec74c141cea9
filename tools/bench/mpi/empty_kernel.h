// SPDX-License-Identifier: Apache-2.0
//
// Device code of the kernel `empty`, which takes an unsigned number and does nothing.

#pragma once

#include <vector>

#include "device/runtime.h"

namespace fairlead::tools {

const std::vector<device::CodeImage>& empty_kernel_images();

}  // namespace fairlead::tools
