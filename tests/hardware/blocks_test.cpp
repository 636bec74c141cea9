// SPDX-License-Identifier: Apache-2.0
//
// The kernel that moves bytes between layouts (src/kernels/blocks.h) against a walk on the host: random
// layouts on both sides, any range, any alignment, one device or pieces that come in turn. What is not of the
// layout stays. FAIRLEAD_DEVICE says on which provider; exits with 77 where that has no device.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "packing/move.h"
#include "random_tree.h"

namespace fairlead::packing {
namespace {

using device::Error;
using random_layout::Generator;
using random_layout::Node;
using random_layout::seed;
using random_layout::tree_of;
using Bytes = std::vector<unsigned char>;

device::Runtime& gpu() {
  return *device::whole_runtime();
}

#define ASSERT_SUCCESS(call) ASSERT_EQ(call, Error::none) << gpu().error_text()

// The same bytes on the device and on the host, the first element somewhere inside.
class Buffer {
 public:
  Buffer(const Plan& plan, uint64_t count, size_t shift, std::mt19937_64& random) {
    int64_t low = plan.low(count), high = plan.high(count);
    origin_ = guard + static_cast<int64_t>(shift) - low;
    host_.resize(static_cast<size_t>(high - low) + 2 * guard + shift);
    for (unsigned char& byte : host_) byte = static_cast<unsigned char>(random());
    EXPECT_EQ(gpu().allocate(0, host_.size(), &device_), Error::none);
    EXPECT_EQ(device::copy_now(0, device_, host_.data(), host_.size()), Error::none);
  }
  ~Buffer() { gpu().free(device_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* on_device() const { return at(device_); }
  void* on_host() { return at(host_.data()); }
  const Bytes& wanted() const { return host_; }
  Bytes found() const {
    Bytes bytes(host_.size());
    EXPECT_EQ(device::copy_now(0, bytes.data(), device_, bytes.size()), Error::none);
    return bytes;
  }

 private:
  static constexpr int64_t guard = 64;
  void* at(void* base) const {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(base) + static_cast<uintptr_t>(origin_));
  }
  int64_t origin_ = 0;
  Bytes host_;
  void* device_ = nullptr;
};

// Kernels are loaded when the device idles, which it seldom seems to where other processes use it, too.
template <class Try>
Error once_loaded(const Try& attempt) {
  constexpr int attempts = 5000;
  Error error = Error::not_ready;
  for (int k = 0; k < attempts && error == Error::not_ready; ++k) {
    if (k > 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    error = attempt();
  }
  return error;
}

void move(Buffer& to, const Plan& to_plan, uint64_t to_count, uint64_t to_at, Buffer& from,
          const Plan& from_plan, uint64_t from_count, uint64_t from_at, uint64_t bytes) {
  Move move;
  ASSERT_SUCCESS(once_loaded([&] {
    return move.start(0, to_plan.view(to.on_device(), to_count), to_at,
                      from_plan.view(from.on_device(), from_count), from_at, bytes);
  }));
  ASSERT_SUCCESS(move.wait());
  move_on_host(to_plan.view(to.on_host(), to_count), to_at, from_plan.view(from.on_host(), from_count),
               from_at, bytes);
}

TEST(blocks, random_layouts_on_both_sides) {
  ASSERT_SUCCESS(once_loaded([] { return Move::possible(0) ? Error::none : Error::not_ready; }));
  const uint64_t first_seed = seed();
  for (uint64_t round = 0; round < 150; ++round) {
    Generator generator(first_seed + round, false), overlapping(first_seed + round + 1000000, true);
    Node nodes[2] = {generator.make(static_cast<int>(generator.pick(0, 6)), 600),
                     overlapping.make(static_cast<int>(generator.pick(0, 6)), 600)};
    if (nodes[0].size() == 0 || nodes[1].size() == 0) continue;
    SCOPED_TRACE("TEST_SEED=" + std::to_string(first_seed + round) + ": " + nodes[0].text() + " from " +
                 nodes[1].text());
    auto to_plan = Plan::make(tree_of(nodes[0]), nodes[0].extent);
    auto from_plan = Plan::make(tree_of(nodes[1]), nodes[1].extent);
    ASSERT_TRUE(to_plan && from_plan);
    uint64_t counts[2];
    for (int i = 0; i < 2; ++i) counts[i] = 1 + generator.pick(0, 6000 / nodes[i].size());
    std::mt19937_64 random(first_seed + round);
    constexpr size_t shifts[] = {0, 16, 8, 4, 1};
    Buffer to(*to_plan, counts[0], shifts[generator.pick(0, 4)], random);
    Buffer from(*from_plan, counts[1], shifts[generator.pick(0, 4)], random);
    uint64_t to_bytes = counts[0] * nodes[0].size(), from_bytes = counts[1] * nodes[1].size();
    for (int range = 0; range < 4; ++range) {
      uint64_t to_at = range ? generator.pick(0, to_bytes - 1) : 0,
               from_at = range ? generator.pick(0, from_bytes - 1) : 0;
      if (range == 2) to_at -= to_at % 16, from_at -= from_at % 16;
      uint64_t bytes = std::min(to_bytes - to_at, from_bytes - from_at);
      if (range == 3) bytes = generator.pick(0, bytes);
      move(to, *to_plan, counts[0], to_at, from, *from_plan, counts[1], from_at, bytes);
    }
    ASSERT_TRUE(to.found() == to.wanted());
    ASSERT_TRUE(from.found() == from.wanted());
  }
}

// Layouts that differ by their kind, in pieces that begin and end anywhere.
TEST(blocks, a_message_in_pieces) {
  const Tree eight = Tree::of_bytes(8);
  std::vector<Tree> equal, unequal;
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    equal.push_back(eight.shifted(32 * i + 8 * static_cast<int64_t>(random() % 3)));
    unequal.push_back(Tree::of_bytes(1 + random() % 40).shifted(48 * i));
  }
  const std::pair<Tree, int64_t> layouts[] = {
      {Tree::of_bytes(12345), 12345},
      {eight.repeated(5000, 40), 200000},
      {eight.repeated(100, -24).repeated(7, 5000).repeated(9, 40000), 360000},
      {Tree::sequence(equal), 96000},
      {Tree::sequence(unequal), 144000}};
  for (const auto& [tree, extent] : layouts) {
    auto plan = Plan::make(tree, extent), packed = Plan::make(eight, 8);
    uint64_t bytes = 2 * tree.size(), count = (bytes + 7) / 8;
    Buffer spread(*plan, 2, 0, random), stream(*packed, count, 0, random);
    for (uint64_t at = 0, length; at < bytes; at += length) {
      length = std::min<uint64_t>(1 + random() % 9999, bytes - at);
      move(stream, *packed, count, at, spread, *plan, 2, at, length);
    }
    ASSERT_TRUE(stream.found() == stream.wanted());
    Buffer back(*plan, 2, 8, random);
    for (uint64_t at = 0, length; at < bytes; at += length) {
      length = std::min<uint64_t>(1 + random() % 9999, bytes - at);
      move(back, *plan, 2, at, stream, *packed, count, at, length);
    }
    ASSERT_TRUE(back.found() == back.wanted());
  }
}

TEST(blocks, more_kernels_than_can_run_at_once) {
  const Tree tree = Tree::of_bytes(4).repeated(10, 12);
  auto plan = Plan::make(tree, 120), packed = Plan::make(Tree::of_bytes(40), 40);
  std::mt19937_64 random(3);
  constexpr uint64_t messages = 1500;
  Buffer from(*plan, messages, 0, random), to(*packed, messages, 0, random);
  std::vector<std::unique_ptr<Move>> moves;
  for (uint64_t i = 0; i < messages; ++i) {
    moves.push_back(std::make_unique<Move>());
    ASSERT_SUCCESS(moves.back()->start(0, packed->view(to.on_device(), messages), 40 * i,
                                       plan->view(from.on_device(), messages), 40 * i, 40));
  }
  for (auto& move : moves) ASSERT_SUCCESS(move->wait());
  move_on_host(packed->view(to.on_host(), messages), 0, plan->view(from.on_host(), messages), 0,
               40 * messages);
  EXPECT_TRUE(to.found() == to.wanted());
}

}  // namespace
}  // namespace fairlead::packing

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  auto* runtime = fairlead::device::whole_runtime();
  if (!runtime || runtime->initialize() != fairlead::device::Error::none ||
      runtime->device_count(&devices) != fairlead::device::Error::none || devices == 0) {
    std::printf("no device\n");
    return 77;
  }
  int result = RUN_ALL_TESTS();
  fairlead::packing::release_block_tables();
  fairlead::kernels::release_kernel_runs();
  return result;
}
