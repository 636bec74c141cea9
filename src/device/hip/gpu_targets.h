// SPDX-License-Identifier: Apache-2.0
//
// Which image of device code an AMD GPU runs, by the table that the build made the images by
// (gpu_targets.def).

#pragma once

#include <string_view>

namespace fairlead::device {

// The best fit has the highest rank; 0: the GPU does not run it. `gpu` is its target, "gfx90a"; where that is
// not known (""), every AMD image may be tried.
int gpu_image_rank(std::string_view image, std::string_view gpu);

}  // namespace fairlead::device
