// SPDX-License-Identifier: Apache-2.0
// Which NVLink domain a GPU belongs to, with a substitute of NVML (fake_nvml.cpp).

#include "device/cuda/fabric_domain.h"

#include <gtest/gtest.h>

#include <cstring>

extern "C" int nvmlInit_v2();

namespace fairlead::device {
namespace {

TEST(FabricDomain, is_what_new_and_old_drivers_say) {
  ASSERT_EQ(nvmlInit_v2(), 0) << "the substitute is linked";
  FabricDomain expected{{}, 0x01020304};
  std::memset(expected.cluster, 7, sizeof expected.cluster);
  for (const char* pci : {"0000:00:00.0", "0000:01:00.0"}) {
    FabricDomain found{};
    EXPECT_EQ(find_fabric_domain(pci, &found), "") << pci;
    EXPECT_EQ(found, expected) << pci;
  }
}

TEST(FabricDomain, is_none_unless_the_registration_has_succeeded) {
  const std::pair<const char*, const char*> cases[] = {
      {"0000:02:00.0", "state 2, status 0"},
      {"0000:03:00.0", "state 3, status 9"},
      {"0000:04:00.0", "cluster 00000000000000000000000000000000"},
      {"0000:05:00.0", "nvmlDeviceGetGpuFabricInfoV returned 25"},
      {"0000:06:00.0", "nvmlDeviceGetHandleByPciBusId_v2 returned 6"}};
  for (const auto& [pci, words] : cases) {
    FabricDomain found{};
    EXPECT_NE(find_fabric_domain(pci, &found).find(words), std::string::npos) << pci;
    EXPECT_FALSE(found) << pci;
  }
}

}  // namespace
}  // namespace fairlead::device
