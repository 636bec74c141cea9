// SPDX-License-Identifier: Apache-2.0
// Several simulated devices: current device per thread, contexts, identities, peer access.

#include <cstring>
#include <string>
#include <thread>

#include "sim_fixture.h"

namespace fairlead::device {
namespace {

using SimDevices = SimTest;

TEST_F(SimDevices, asking_creates_no_context_and_using_does) {
  int count = 0, local = 0;
  ASSERT_EQ(gpu.device_count(&count), Error::none);
  EXPECT_EQ(count, 4);
  DeviceInfo info;
  ASSERT_EQ(gpu.device_info(3, &info), Error::none);
  query(&local);
  EXPECT_FALSE(gpu.has_context(3));
  device_memory(1, 3);
  EXPECT_TRUE(gpu.has_context(3));
  EXPECT_FALSE(gpu.has_context(2));
  stream(2);
  EXPECT_TRUE(gpu.has_context(2));
  EXPECT_TRUE(gpu.in_use());
  EXPECT_FALSE(gpu.has_context(-1));
  EXPECT_FALSE(gpu.has_context(4));
}

TEST_F(SimDevices, current_device_belongs_to_the_thread_and_survives_other_calls) {
  ASSERT_EQ(gpu.set_current_device(1), Error::none);
  device_memory(1, 2);
  int device = -1, other = -1;
  ASSERT_EQ(gpu.current_device(&device), Error::none);
  std::thread([&] { gpu.current_device(&other); }).join();
  EXPECT_EQ(device, 1);
  EXPECT_EQ(other, 0);
  EXPECT_EQ(gpu.set_current_device(4), Error::invalid_value);
  ASSERT_EQ(gpu.set_current_device(0), Error::none);
}

TEST_F(SimDevices, each_device_has_its_own_identity) {
  DeviceInfo a, b;
  ASSERT_EQ(gpu.device_info(0, &a), Error::none);
  ASSERT_EQ(gpu.device_info(1, &b), Error::none);
  EXPECT_NE(memcmp(a.uuid, b.uuid, sizeof a.uuid), 0);
  EXPECT_STRNE(a.pci, b.pci);
  EXPECT_EQ(gpu.device_info(4, &a), Error::invalid_value);
}

TEST_F(SimDevices, memory_knows_its_device_and_is_copied_without_peer_access) {
  char *on_0 = device_memory(10, 0), *on_1 = device_memory(10, 1);
  EXPECT_EQ(query(on_1).device, 1);
  fill(on_0, 4, 10);
  Stream copier = stream(0);
  ASSERT_EQ(gpu.copy(on_1, on_0, 10, copier), Error::none);
  ASSERT_EQ(gpu.synchronize_stream(copier), Error::none);
  EXPECT_EQ(read(on_1 + 9, 1)[0], 4);
}

TEST_F(SimDevices, peer_access_is_possible_between_different_devices) {
  bool possible = false;
  ASSERT_EQ(gpu.can_access_peer(0, 3, &possible), Error::none);
  EXPECT_TRUE(possible);
  EXPECT_EQ(gpu.enable_peer(0, 3), Error::none);
  EXPECT_EQ(gpu.enable_peer(0, 3), Error::none);
  EXPECT_EQ(gpu.enable_peer(0, 4), Error::invalid_value);
}

TEST_F(SimDevices, needs_no_peers_access_is_refused_but_copies_arrive) {
  bool possible = true;
  ASSERT_EQ(gpu.can_access_peer(0, 1, &possible), Error::none);
  EXPECT_FALSE(possible);
  EXPECT_EQ(gpu.enable_peer(0, 1), Error::peer_unavailable);
  char *on_0 = device_memory(10, 0), *on_1 = device_memory(10, 1);
  fill(on_0, 4, 10);
  Stream copier = stream(1);
  ASSERT_EQ(gpu.copy(on_1, on_0, 10, copier), Error::none);
  ASSERT_EQ(gpu.synchronize_stream(copier), Error::none);
  EXPECT_EQ(read(on_1, 1)[0], 4);
}

}  // namespace
}  // namespace fairlead::device
