// SPDX-License-Identifier: Apache-2.0
// Several simulated devices: current device per thread, contexts, identities, peer access.

#include <cstring>
#include <string>
#include <thread>

#include "sim/sim_fixture.h"

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

TEST_F(SimDevices, a_reset_ends_what_was_made_there_and_nothing_else) {
  char *here = device_memory(100, 1), *there = device_memory(100, 2);
  void* pinned = nullptr;
  int device = 1;
  ASSERT_EQ(gpu.allocate_pinned(100, &pinned, &device), Error::none);
  Stream ended = stream(1), kept = stream(2);
  Event event = nullptr;
  ASSERT_EQ(gpu.create_event(1, &event), Error::none);
  const uint64_t id = query(here).id;
  const uint32_t context = gpu.context_number(1);
  ASSERT_EQ(gpu.reset(1), Error::none);
  EXPECT_FALSE(gpu.has_context(1));
  EXPECT_EQ(gpu.context_number(1), context + 1);
  for (void* gone : {static_cast<void*>(here), pinned}) EXPECT_EQ(query(gone).kind, MemoryKind::host);
  EXPECT_EQ(query(there).kind, MemoryKind::device);
  fill(there, 3, 100);
  EXPECT_EQ(gpu.query_stream(kept), Error::none);
  EXPECT_EQ(gpu.destroy_stream(ended), Error::none);
  EXPECT_EQ(gpu.destroy_event(event), Error::none);
  char* fresh = device_memory(100, 1);
  EXPECT_NE(query(fresh).id, id);
  EXPECT_NE(query(fresh).id >> context_bit, id >> context_bit);
}

TEST_F(SimDevices, the_use_of_what_a_reset_has_ended_ends_the_process) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  void *memory = nullptr, *pinned = nullptr;
  int device = 1;
  Stream made = nullptr;
  alignas(4096) static char host[4096];
  ASSERT_EQ(gpu.allocate(1, 100, &memory), Error::none);
  ASSERT_EQ(gpu.allocate_pinned(100, &pinned, &device), Error::none);
  ASSERT_EQ(gpu.register_host(host, sizeof host, &device), Error::none);
  ASSERT_EQ(gpu.create_stream(1, &made), Error::none);
  ASSERT_EQ(gpu.reset(1), Error::none);
  EXPECT_DEATH(gpu.query_stream(made), "ended with a reset");
  EXPECT_DEATH(gpu.free(memory), "after a reset");
  EXPECT_DEATH(gpu.free_pinned(pinned), "after a reset");
  EXPECT_DEATH(gpu.unregister_host(host), "after a reset");
  EXPECT_DEATH(*static_cast<volatile char*>(pinned) = 1, "");
}

}  // namespace
}  // namespace fairlead::device
