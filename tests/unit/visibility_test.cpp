// SPDX-License-Identifier: Apache-2.0
//
// Which GPUs the variables of an environment leave, and what shows a rank one of them.

#include "common/visibility.h"

#include <gtest/gtest.h>

using fairlead::tools::Environment;
using fairlead::tools::show_only;
using fairlead::tools::visibility;

namespace {

using Shown = std::pair<std::string, std::string>;

std::vector<std::string> in_force(const std::string& provider, const Environment& environment) {
  std::vector<std::string> names;
  for (const auto& chosen : visibility(provider, environment).layers) names.push_back(chosen.variable);
  return names;
}

}  // namespace

TEST(visibility, rocm_takes_cudas_variable_where_hips_is_empty) {
  // The GPUs that HIP shows then are 2 and 3: rank 0 must get 2, by the variable that HIP looks at first.
  for (const Environment& environment :
       {Environment{{"CUDA_VISIBLE_DEVICES", "2,3"}},
        Environment{{"CUDA_VISIBLE_DEVICES", "2,3"}, {"HIP_VISIBLE_DEVICES", ""}}}) {
    EXPECT_EQ(show_only("rocm", environment, 0, 2), Shown("HIP_VISIBLE_DEVICES", "2"));
    EXPECT_EQ(show_only("rocm", environment, 1, 2), Shown("HIP_VISIBLE_DEVICES", "3"));
    EXPECT_EQ(in_force("rocm", environment), std::vector<std::string>{"CUDA_VISIBLE_DEVICES"});
  }
}

TEST(visibility, hips_variable_overrules_cudas) {
  const Environment both = {{"CUDA_VISIBLE_DEVICES", "2,3"}, {"HIP_VISIBLE_DEVICES", "5,4"}};
  EXPECT_EQ(show_only("rocm", both, 0, 2), Shown("HIP_VISIBLE_DEVICES", "5"));
  EXPECT_EQ(in_force("rocm", both), std::vector<std::string>{"HIP_VISIBLE_DEVICES"});
  ASSERT_EQ(visibility("rocm", both).overruled.size(), 1u);
  EXPECT_EQ(visibility("rocm", both).overruled[0].text, "2,3");
}

TEST(visibility, hip_counts_among_what_rocr_left) {
  EXPECT_EQ(show_only("rocm", {{"ROCR_VISIBLE_DEVICES", "4,6"}}, 1, 2), Shown("HIP_VISIBLE_DEVICES", "1"));
  EXPECT_EQ(show_only("rocm", {{"ROCR_VISIBLE_DEVICES", "4,6"}, {"CUDA_VISIBLE_DEVICES", "1"}}, 0, 1),
            Shown("HIP_VISIBLE_DEVICES", "1"));
  EXPECT_EQ(in_force("rocm", {{"ROCR_VISIBLE_DEVICES", ""}, {"HIP_VISIBLE_DEVICES", "1"}}),
            (std::vector<std::string>{"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"}));
}

TEST(visibility, cuda_has_one_variable) {
  EXPECT_EQ(show_only("cuda", {{"HIP_VISIBLE_DEVICES", "3"}}, 1, 4), Shown("CUDA_VISIBLE_DEVICES", "1"));
  EXPECT_EQ(show_only("cuda", {{"CUDA_VISIBLE_DEVICES", "GPU-1f,GPU-2e"}}, 1, 2),
            Shown("CUDA_VISIBLE_DEVICES", "GPU-2e"));
  EXPECT_TRUE(visibility("cuda", {{"CUDA_VISIBLE_DEVICES", ""}}).layers[0].entries.empty());
}

TEST(visibility, lists_end_before_what_names_no_gpu) {
  auto entries = [](const char* text) {
    return visibility("rocm", {{"HIP_VISIBLE_DEVICES", text}}).layers.at(0).entries;
  };
  EXPECT_EQ(entries("1,0,-1,2"), (std::vector<std::string>{"1", "0"}));
  EXPECT_EQ(entries("1, 1,2"), (std::vector<std::string>{"1", "2"}));
  EXPECT_TRUE(entries("-1").empty());
  EXPECT_TRUE(entries("NoDevFiles").empty());
}

TEST(visibility, a_list_that_the_runtime_does_not_look_at_is_not_taken) {
  // Eight GPUs are seen although a list names two.
  EXPECT_EQ(show_only("rocm", {{"CUDA_VISIBLE_DEVICES", "2,3"}}, 1, 8), Shown("HIP_VISIBLE_DEVICES", "1"));
}

TEST(visibility, simulated_gpus_are_not_hidden) {
  EXPECT_EQ(show_only("sim", {{"HIP_VISIBLE_DEVICES", "3"}}, 0, 1), Shown());
  EXPECT_TRUE(visibility("sim", {{"HIP_VISIBLE_DEVICES", "3"}}).layers.empty());
}
