// SPDX-License-Identifier: Apache-2.0
//
// The patches of accesses_patch.cpp, compiled for the architectures that the build knows: none if it had no
// clang or no ptxas.

#pragma once

#if !defined(__CUDA__)

#include <cstddef>
#include <string_view>
#include <vector>

namespace fairlead::device::program {

struct PatchImage {
  std::string_view target;  // "sm_90"
  const unsigned char* code;
  size_t bytes;
};
const std::vector<PatchImage>& patch_images();

}  // namespace fairlead::device::program

#endif
