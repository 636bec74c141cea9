// SPDX-License-Identifier: Apache-2.0
//
// The environment variables that choose the GPUs a process sees, in one table: how the runtimes compose them,
// and which one `fairlead run` writes.
//
//   CUDA   CUDA_VISIBLE_DEVICES
//   ROCm   first ROCr's: ROCR_VISIBLE_DEVICES; then, among the GPUs that it left, HIP's: HIP_VISIBLE_DEVICES,
//   or
//          CUDA_VISIBLE_DEVICES where that is empty or not set
//
// Of the variables of one layer the first that is set holds. ROCr's and CUDA's hide all GPUs where they are
// set and empty; HIP takes an empty one for one that is not set. A list ends before its first entry that is
// neither a number nor a UUID. GPU_DEVICE_ORDINAL is OpenCL's: HIP does not read it.

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace fairlead::tools {

using Environment = std::map<std::string, std::string>;

// A variable that chooses GPUs, and the list in it.
struct ChosenGpus {
  int layer = 0;
  std::string variable, text;
  std::vector<std::string> entries;
};

struct Visibility {
  std::vector<ChosenGpus> layers;     // those in force, the lowest first
  std::vector<ChosenGpus> overruled;  // set, and not looked at
};

// `provider` is "cuda" or "rocm"; others hide nothing.
Visibility visibility(const std::string& provider, const Environment& environment);

// What to set so that a process sees GPU `ordinal` alone of the `count` that this one sees: a name and a
// value. Empty where the provider hides nothing.
std::pair<std::string, std::string> show_only(const std::string& provider, const Environment& environment,
                                              int ordinal, int count);

Environment this_environment();

}  // namespace fairlead::tools
