// SPDX-License-Identifier: Apache-2.0
//
// The kernels of code_object_kernels.cpp: their code for every target of this build.

#pragma once

#include <fairlead/kernel.h>

#include <vector>

namespace fairlead::test {

const std::vector<fairlead_code_image>& code_images();

}  // namespace fairlead::test
