// SPDX-License-Identifier: Apache-2.0

#include "device/hip/gpu_targets.h"

namespace fairlead::device {
namespace {

struct Row {
  std::string_view target, gpus;
};
constexpr Row rows[] = {
#define FAIRLEAD_GPU_TARGET(target, version, instead, gpus) {#target, #gpus},
#include "device/hip/gpu_targets.def"
#undef FAIRLEAD_GPU_TARGET
};

bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t end = words.find(' ');
    if (words.substr(0, end) == word) return true;
    if (end == std::string_view::npos) break;
    words.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

int gpu_image_rank(std::string_view image, std::string_view gpu) {
  if (!image.starts_with("gfx")) return 0;
  if (gpu.empty()) return 1;
  if (image == gpu) return 2;
  for (const Row& row : rows)
    if (row.target == image && has_word(row.gpus, gpu)) return 1;
  return 0;
}

}  // namespace fairlead::device
