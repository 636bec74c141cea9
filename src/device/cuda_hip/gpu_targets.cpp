// SPDX-License-Identifier: Apache-2.0

#include "device/cuda_hip/gpu_targets.h"

#include <charconv>
#include <optional>

namespace fairlead::device {
namespace {

struct Row {
  std::string_view target, gpus;
};
constexpr Row rows[] = {
#define FAIRLEAD_GPU_TARGET(target, version, instead, gpus) {#target, #gpus},
#include "device/cuda_hip/gpu_targets.def"
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

// The compute capability of an NVIDIA target, 86 for sm_86. Code for sm_90a runs on no other GPU; the build
// makes none.
std::optional<int> capability_of(std::string_view target) {
  constexpr std::string_view prefix = "sm_";
  int capability = 0;
  if (!target.starts_with(prefix)) return std::nullopt;
  const char* const end = target.data() + target.size();
  auto [rest, error] = std::from_chars(target.data() + prefix.size(), end, capability);
  return error == std::errc() && rest == end ? std::optional(capability) : std::nullopt;
}

int nvidia_image_rank(std::string_view image, int gpu) {
  if (image == "ptx") return 1;
  const std::optional<int> code = capability_of(image);
  return code && *code / 10 == gpu / 10 && *code <= gpu ? 2 + *code % 10 : 0;
}

}  // namespace

int gpu_image_rank(std::string_view image, std::string_view gpu) {
  if (const std::optional<int> capability = capability_of(gpu)) return nvidia_image_rank(image, *capability);
  if (!image.starts_with("gfx")) return 0;
  if (gpu.empty()) return 1;
  if (image == gpu) return 2;
  for (const Row& row : rows)
    if (row.target == image && has_word(row.gpus, gpu)) return 1;
  return 0;
}

}  // namespace fairlead::device
