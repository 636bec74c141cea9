// SPDX-License-Identifier: Apache-2.0
//
// Which ROCr is asked about memory: also one that HIP opens after Fairlead has found HIP.

#include "device/hip/rocr.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace fairlead::device {
namespace {

// A HIP that is not linked with ROCr: any library without its functions.
void* hip() {
  return dlopen("libm.so.6", RTLD_NOW);
}

TEST(rocr, is_found_although_it_comes_late) {
  int memory = 0;
  Rocr rocr;
  rocr.belong_to(hip());

  // Without one, a warning says it once, and no memory is shared.
  Rocr too_early;
  too_early.belong_to(hip());
  testing::internal::CaptureStderr();
  EXPECT_EQ(too_early.find(&memory).kind, Rocr::Kind::unknown);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("no libhsa-runtime64.so"), std::string::npos) << text;
  testing::internal::CaptureStderr();
  EXPECT_EQ(too_early.find(&memory).kind, Rocr::Kind::unknown);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");

  ASSERT_TRUE(dlopen(FAKE_ROCR, RTLD_NOW | RTLD_LOCAL)) << dlerror();
  EXPECT_EQ(rocr.find(&memory).kind, Rocr::Kind::ordinary);
}

}  // namespace
}  // namespace fairlead::device
