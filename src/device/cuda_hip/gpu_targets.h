// SPDX-License-Identifier: Apache-2.0
//
// Selects the image of device code that a GPU runs. For AMD's the same table (gpu_targets.def) decides from
// which the build created the images, for NVIDIA's the rule of CUDA's binary compatibility.

#pragma once

#include <string_view>

namespace fairlead::device {

// Ranks an image for a GPU. The highest rank is the best fit; 0: the GPU cannot run the image. `gpu` is its
// target, for example "gfx90a" or "sm_90"; if that is unknown (""), every AMD image may be tried. Machine
// code for sm_86 runs on sm_86 and sm_89, but neither on sm_80 nor on sm_90; the driver compiles PTX for any
// GPU.
int gpu_image_rank(std::string_view image, std::string_view gpu);

}  // namespace fairlead::device
