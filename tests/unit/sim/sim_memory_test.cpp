// SPDX-License-Identifier: Apache-2.0
// Simulated device memory faults on the host, shows poison, is told apart by kind and id, and runs out.

#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "sim/sim_fixture.h"

namespace fairlead::device {
namespace {

using SimMemory = SimTest;
using SimMemoryDeathTest = SimTest;

TEST_F(SimMemoryDeathTest, host_that_dereferences_device_memory_dies) {
  volatile char* memory = device_memory(4096);
  EXPECT_DEATH(memory[0] = 1, "");
  EXPECT_DEATH((void)memory[4095], "");
}

TEST_F(SimMemoryDeathTest, freed_managed_and_pinned_memory_dies) {
  void* managed = nullptr;
  ASSERT_EQ(gpu.allocate_managed(0, 4096, &managed), Error::none);
  volatile char* pinned = pinned_memory(4096);
  *static_cast<char*>(managed) = 1;
  *pinned = 1;
  ASSERT_EQ(gpu.free(managed), Error::none);
  ASSERT_EQ(gpu.free_pinned(const_cast<char*>(pinned)), Error::none);
  EXPECT_DEATH(*static_cast<volatile char*>(managed) = 1, "");
  EXPECT_DEATH(*pinned = 1, "");
}

TEST_F(SimMemory, fresh_memory_is_poisoned_not_zero) {
  for (size_t size : {size_t{1}, size_t{5000}, size_t{1} << 20, size_t{3} << 20}) {
    char* memory = device_memory(size);
    for (unsigned char byte : read(memory, std::min<size_t>(size, 65536))) ASSERT_EQ(byte, 0xA5);
    ASSERT_EQ(read(memory + size - 1, 1)[0], 0xA5);
    ASSERT_EQ(gpu.free(memory), Error::none);
  }
}

TEST_F(SimMemory, memory_larger_than_the_machine_costs_nothing) {
  char* memory = device_memory(size_t{3} << 30);
  fill(memory + (size_t{2} << 30), 7, 10);
  EXPECT_EQ(read(memory + (size_t{2} << 30) + 9, 1)[0], 7);
  ASSERT_EQ(gpu.free(memory), Error::none);
}

TEST_F(SimMemory, same_size_again_gets_the_same_address_with_a_new_id) {
  device_memory(4096);
  char* first = device_memory(100000);
  device_memory(100000);
  uint64_t id = query(first).id;
  ASSERT_EQ(gpu.free(first), Error::none);
  EXPECT_EQ(query(first).kind, MemoryKind::host);
  char* second = device_memory(100000);
  EXPECT_EQ(first, second);
  EXPECT_GT(query(second).id, id);
  EXPECT_EQ(read(second, 1)[0], 0xA5);
}

TEST_F(SimMemory, addresses_of_freed_neighbours_serve_larger_allocations) {
  std::vector<char*> pieces;
  for (int i = 0; i < 64; ++i) pieces.push_back(device_memory(4096));
  std::set<char*> distinct(pieces.begin(), pieces.end());
  ASSERT_EQ(distinct.size(), pieces.size());
  for (char* piece : pieces) ASSERT_EQ(gpu.free(piece), Error::none);
  char* whole = device_memory(64 * 4096);
  EXPECT_EQ(query(whole + 64 * 4096 - 1).base, reinterpret_cast<uintptr_t>(whole));
  ASSERT_EQ(gpu.free(whole), Error::none);
}

TEST_F(SimMemory, virtual_memory_is_made_of_pieces_with_an_identity_each) {
  void* made = nullptr;
  ASSERT_EQ(gpu.allocate_virtual(0, 700000, &made), Error::none);
  char* start = static_cast<char*>(made);
  Allocation first = query(start), second = query(start + 327680), last = query(start + 699999);
  EXPECT_EQ(first.kind, MemoryKind::device);
  EXPECT_EQ(first.base, reinterpret_cast<uintptr_t>(start));
  EXPECT_EQ(first.size, 327680u);
  EXPECT_EQ(second.base, first.base + first.size);
  EXPECT_EQ(last.base, second.base + second.size);
  EXPECT_EQ(last.size, 700000u - 2 * 327680u);
  EXPECT_EQ(query(start + 700000).kind, MemoryKind::host);
  EXPECT_EQ((std::set<uint64_t>{first.id, second.id, last.id, query(device_memory(1)).id}.size()), 4u);
  fill(start, 7, 700000);
  EXPECT_EQ(read(start, 700000), std::vector<unsigned char>(700000, 7));
  ASSERT_EQ(gpu.free(start), Error::none);
  ASSERT_EQ(gpu.allocate_virtual(0, 700000, &made), Error::none);
  EXPECT_EQ(made, start);
  EXPECT_GT(query(made).id, last.id);
}

TEST_F(SimMemory, query_tells_kind_base_and_size_inside_and_host_outside) {
  char* device = device_memory(1000);
  Allocation found = query(device + 999);
  EXPECT_EQ(found.kind, MemoryKind::device);
  EXPECT_TRUE(found.exportable);
  EXPECT_EQ(found.device, 0);
  EXPECT_EQ(found.base, reinterpret_cast<uintptr_t>(device));
  EXPECT_EQ(found.size, 1000u);
  EXPECT_EQ(query(device + 1000).kind, MemoryKind::host);

  void* managed = nullptr;
  ASSERT_EQ(gpu.allocate_managed(0, 64, &managed), Error::none);
  memset(managed, 3, 64);
  EXPECT_EQ(read(managed, 64), std::vector<unsigned char>(64, 3));
  EXPECT_EQ(query(managed).kind, MemoryKind::managed);
  EXPECT_FALSE(query(managed).exportable);

  char* pinned = pinned_memory(64);
  pinned[63] = 4;
  EXPECT_EQ(query(pinned + 63).kind, MemoryKind::pinned);

  int local = 0;
  Allocation host = query(&local);
  EXPECT_EQ(host.kind, MemoryKind::host);
  EXPECT_EQ(host.base, 0u);
  EXPECT_EQ(host.id, 0u);
  EXPECT_EQ(query(nullptr).kind, MemoryKind::host);
}

TEST_F(SimMemory, registered_host_memory_is_pinned_until_unregistered) {
  std::vector<char> host(10000);
  ASSERT_EQ(gpu.register_host(host.data(), host.size()), Error::none);
  EXPECT_EQ(gpu.register_host(host.data() + 10, 10), Error::none);
  EXPECT_EQ(query(host.data() + 5000).kind, MemoryKind::pinned);
  EXPECT_EQ(query(host.data() + 5000).base, reinterpret_cast<uintptr_t>(host.data()));
  EXPECT_EQ(gpu.free_pinned(host.data()), Error::invalid_value);
  ASSERT_EQ(gpu.unregister_host(host.data()), Error::none);
  EXPECT_EQ(query(host.data() + 5000).kind, MemoryKind::host);
  EXPECT_EQ(gpu.unregister_host(host.data()), Error::invalid_value);
}

TEST_F(SimMemory, wrong_frees_are_refused_and_say_why) {
  char* device = device_memory(4096);
  char* pinned = pinned_memory(4096);
  int local;
  EXPECT_EQ(gpu.free(device + 1), Error::invalid_value);
  EXPECT_STRNE(gpu.error_text(), "");
  EXPECT_EQ(gpu.free(&local), Error::invalid_value);
  EXPECT_EQ(gpu.free(pinned), Error::invalid_value);
  EXPECT_EQ(gpu.free_pinned(device), Error::invalid_value);
  EXPECT_EQ(gpu.free(device), Error::none);
  EXPECT_EQ(gpu.free(device), Error::invalid_value);
  EXPECT_EQ(gpu.free_pinned(pinned), Error::none);
}

TEST_F(SimMemory, cpu_mapping_reaches_the_bytes_and_knows_the_end) {
  char* device = device_memory(100);
  fill(device, 9, 100);
  auto* mapping = static_cast<char*>(gpu.cpu_mapping(device + 40, 60));
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(mapping[59], 9);
  mapping[0] = 8;
  EXPECT_EQ(read(device + 40, 1)[0], 8);
  EXPECT_EQ(gpu.cpu_mapping(device + 40, 61), nullptr);
  int local;
  EXPECT_EQ(gpu.cpu_mapping(&local, 4), nullptr);
}

TEST_F(SimMemory, needs_coherence_the_cpu_and_the_gpu_share_all_memory) {
  EXPECT_TRUE(gpu.kernels_reach_host(0));
  for (size_t bytes : {size_t{100}, size_t{300000}}) {
    char* device = device_memory(bytes);
    EXPECT_EQ(static_cast<unsigned char>(device[bytes - 1]), 0xA5);
    fill(device, 9, bytes);
    EXPECT_EQ(device[bytes - 1], 9);
    device[0] = 8;
    EXPECT_EQ(read(device, 1)[0], 8);
    EXPECT_EQ(gpu.cpu_mapping(device, bytes), device);
    ASSERT_EQ(gpu.free(device), Error::none);
    char* next = device_memory(bytes);
    EXPECT_EQ(next, device);
    EXPECT_EQ(static_cast<unsigned char>(next[0]), 0xA5);
    ASSERT_EQ(gpu.free(next), Error::none);
    EXPECT_DEATH((void)*static_cast<volatile char*>(next), "");
  }
  std::vector<char> host(5000);
  fill(host.data(), 7, host.size());
  EXPECT_EQ(host.back(), 7);
}

TEST_F(SimMemory, threads_allocate_query_and_free_at_once) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        void* address = nullptr;
        Allocation found;
        size_t size = 1000 * (1 + (i + t) % 7);
        if (gpu.allocate(0, size, &address) != Error::none) ++wrong;
        if (gpu.query(static_cast<char*>(address) + size - 1, &found) != Error::none) ++wrong;
        if (found.size != size || found.base != reinterpret_cast<uintptr_t>(address)) ++wrong;
        if (gpu.free(address) != Error::none) ++wrong;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(SimMemory, needs_small_memory_allocations_beyond_it_fail_and_leave_the_rest_usable) {
  void* address = this;
  EXPECT_EQ(gpu.allocate(0, (1 << 20) + 1, &address), Error::out_of_memory);
  EXPECT_EQ(gpu.allocate(0, SIZE_MAX, &address), Error::out_of_memory);
  EXPECT_EQ(address, this);
  EXPECT_NE(strstr(gpu.error_text(), "1048576"), nullptr) << gpu.error_text();
  char* half = device_memory(1 << 19);
  EXPECT_EQ(gpu.allocate(0, (1 << 19) + 1, &address), Error::out_of_memory);
  size_t free_bytes, total;
  ASSERT_EQ(gpu.memory_info(0, &free_bytes, &total), Error::none);
  EXPECT_EQ(free_bytes, size_t{1} << 19);
  EXPECT_EQ(total, size_t{1} << 20);
  device_memory(1 << 19);
  ASSERT_EQ(gpu.free(half), Error::none);
  device_memory(1 << 19);
  pinned_memory(2 << 20);
}

TEST_F(SimMemory, needs_little_pinned_memory_allocations_and_registrations_share_it) {
  void* address = nullptr;
  std::vector<char> own(1 << 19);
  EXPECT_EQ(gpu.allocate_pinned((1 << 20) + 1, &address), Error::out_of_memory);
  ASSERT_EQ(gpu.allocate_pinned(1 << 19, &address), Error::none) << gpu.error_text();
  ASSERT_EQ(gpu.register_host(own.data(), own.size()), Error::none) << gpu.error_text();
  void* more = nullptr;
  EXPECT_EQ(gpu.allocate_pinned(1, &more), Error::out_of_memory);
  ASSERT_EQ(gpu.free_pinned(address), Error::none);
  EXPECT_EQ(gpu.allocate_pinned(1, &more), Error::none);
  EXPECT_EQ(gpu.register_host(&own, 1 << 19), Error::out_of_memory);
  ASSERT_EQ(gpu.unregister_host(own.data()), Error::none);
  EXPECT_EQ(gpu.allocate_pinned(1 << 19, &more), Error::none);
  device_memory(2 << 20);
}

}  // namespace
}  // namespace fairlead::device
