// SPDX-License-Identifier: Apache-2.0
//
// Selects the image of device code that an AMD GPU runs, by the same table (gpu_targets.def) from which the
// build created the images.

#pragma once

#include <string_view>

namespace fairlead::device {

// Ranks an image for a GPU. The highest rank is the best fit; 0: the GPU cannot run the image. `gpu` is its
// target, for example "gfx90a"; if that is unknown (""), every AMD image may be tried.
int gpu_image_rank(std::string_view image, std::string_view gpu);

}  // namespace fairlead::device
