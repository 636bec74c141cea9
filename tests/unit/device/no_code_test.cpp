// SPDX-License-Identifier: Apache-2.0
//
// A GPU that runs no kernel of this library is named once.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "kernels/reduce.h"

using namespace fairlead::kernels;

namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST(no_code, each_gpu_is_named_once_with_the_reason) {
  testing::internal::CaptureStderr();
  for (int again = 0; again < 3; ++again)
    for (int device : {0, 1}) {
      EXPECT_FALSE(copies_available(device));
      EXPECT_FALSE(reduce_available(device, ReduceOp::sum, Element::float64));
    }
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(said, "runs no kernels of Fairlead"), 2u) << said;
  EXPECT_EQ(count(said, "warn GPU 1, "), 1u) << said;
  EXPECT_EQ(count(said, "through host memory (FAIRLEAD_SIM_FAULTS has no_kernels)"), 2u) << said;
}

// On a HIP that loads nothing (tests/tools/fakes/fake_hip.cpp): the targets are those that the kernel tells
// of the GPUs' addresses.
TEST(no_code, needs_amd_gpus_which_are_named_with_their_targets) {
  const std::string topology = std::getenv("FAIRLEAD_KFD_TOPOLOGY");
  for (const auto& [node, version, location] : {std::tuple(1, 130000, 0x000), std::tuple(2, 90402, 0x100)}) {
    const std::string folder = topology + "/nodes/" + std::to_string(node);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/properties")
        << "gfx_target_version " << version << "\nlocation_id " << location << "\n";
  }
  testing::internal::CaptureStderr();
  for (int device : {0, 1, 2}) EXPECT_FALSE(copies_available(device));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(said, "GPU 0, fake GPU, gfx1300, runs no kernels"), 1u) << said;
  EXPECT_EQ(
      count(said,
            "gfx1300, runs no kernels of Fairlead: reductions and layouts with gaps go through host memory "
            "(this build has "),
      1u)
      << said;
  EXPECT_EQ(count(said, "GPU 1, fake GPU, gfx942, runs no kernels"), 1u) << said;
  EXPECT_EQ(count(said, "GPU 2, fake GPU, runs no kernels"), 1u) << said;
}
