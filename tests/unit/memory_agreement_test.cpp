// SPDX-License-Identifier: Apache-2.0
//
// When ranks agree on the memory of a collective between nodes (src/coll/memory_agreement.h).

#include "coll/memory_agreement.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace fairlead::coll {
namespace {

constexpr unsigned bcast = 1, reduce = 11;
constexpr uint64_t bytes = 1 << 20;

// Makes calls of one class and returns the numbers of those that the ranks agree on.
std::vector<int> agreed(MemoryAgreement& memory, int calls, bool on_device) {
  std::vector<int> numbers;
  for (int call = 0; call < calls; ++call) {
    if (!memory.count(bcast, bytes)) continue;
    numbers.push_back(call);
    memory.learn(bcast, bytes, on_device ? bytes : 0);
  }
  return numbers;
}

TEST(memory_agreement, is_rare_where_calls_get_host_memory) {
  MemoryAgreement memory;
  EXPECT_EQ(agreed(memory, 300, false), (std::vector<int>{0, 2, 6, 14, 30, 62, 126, 190, 254}));
}

TEST(memory_agreement, is_on_every_call_that_gets_device_memory) {
  MemoryAgreement memory;
  EXPECT_EQ(agreed(memory, 100, true).size(), 100u);
}

TEST(memory_agreement, notices_a_change_within_sixty_four_calls) {
  MemoryAgreement memory;
  agreed(memory, 1000, false);
  const std::vector<int> numbers = agreed(memory, 200, true);
  ASSERT_FALSE(numbers.empty());
  EXPECT_LE(numbers[0], 63);
  EXPECT_EQ(numbers.size(), 200u - static_cast<size_t>(numbers[0]));
  EXPECT_EQ(agreed(memory, 3, false), (std::vector<int>{0, 2}));
}

TEST(memory_agreement, of_one_class_says_nothing_about_others) {
  MemoryAgreement memory;
  agreed(memory, 1, false);
  EXPECT_FALSE(memory.count(bcast, bytes + 1));
  EXPECT_TRUE(memory.count(bcast, 2 * bytes));
  EXPECT_TRUE(memory.count(reduce, bytes));
}

TEST(memory_agreement, follows_the_programs_assertion) {
  MemoryAgreement memory;
  memory.set_rule(MemoryAgreement::Rule::at_every_call);
  EXPECT_EQ(agreed(memory, 100, false).size(), 100u);
  memory.set_rule(MemoryAgreement::Rule::never);
  EXPECT_TRUE(agreed(memory, 100, true).empty());
}

TEST(memory_agreement, has_stopped_whatever_the_program_asserts_later) {
  MemoryAgreement memory;
  memory.stop();
  memory.set_rule(MemoryAgreement::Rule::at_every_call);
  EXPECT_EQ(memory.rule(), MemoryAgreement::Rule::never);
  EXPECT_TRUE(agreed(memory, 100, true).empty());
  EXPECT_FALSE(memory.count_nonblocking(bcast, bytes));
  EXPECT_EQ(memory.longest(bcast, bytes), 0u);
}

TEST(memory_agreement, of_a_nonblocking_call_is_one_at_a_time) {
  MemoryAgreement memory;
  EXPECT_EQ(memory.longest(bcast, bytes), 0u);
  EXPECT_TRUE(memory.count_nonblocking(bcast, bytes));
  EXPECT_FALSE(memory.count_nonblocking(bcast, bytes));
  EXPECT_TRUE(memory.count_nonblocking(reduce, bytes));
  memory.learn(bcast, bytes, bytes);
  EXPECT_EQ(memory.longest(bcast, bytes), bytes);
  EXPECT_TRUE(memory.count_nonblocking(bcast, bytes));
  memory.learn(bcast, bytes, 0);
  EXPECT_EQ(memory.longest(bcast, bytes), 0u);
  EXPECT_FALSE(memory.count_nonblocking(bcast, bytes));
  EXPECT_TRUE(memory.count_nonblocking(bcast, bytes));
}

TEST(memory_agreement, of_a_nonblocking_call_follows_the_assertion) {
  MemoryAgreement memory;
  memory.set_rule(MemoryAgreement::Rule::at_every_call);
  EXPECT_FALSE(memory.count_nonblocking(bcast, bytes));
  EXPECT_EQ(memory.longest(bcast, bytes), bytes);
  memory.set_rule(MemoryAgreement::Rule::never);
  EXPECT_EQ(memory.longest(bcast, bytes), 0u);
}

// No rank knows the length for the others: what they found holds for some calls.
TEST(memory_agreement, is_rare_where_no_length_is_known) {
  MemoryAgreement memory;
  const auto numbers = [&](int calls, bool on_device) {
    std::vector<int> agreed;
    for (int call = 0; call < calls; ++call) {
      if (!memory.count(bcast, 0)) continue;
      agreed.push_back(call);
      memory.learn(bcast, 0, on_device);
    }
    return agreed;
  };
  EXPECT_EQ(numbers(73, false), (std::vector<int>{0, 8, 72}));
  memory = {};
  EXPECT_EQ(numbers(255, true), (std::vector<int>{0, 2, 6, 14, 30, 62, 126, 190, 254}));
  EXPECT_EQ(memory.longest(bcast, 0), 1u);
  EXPECT_EQ(numbers(73, false), (std::vector<int>{63, 71}));
  EXPECT_EQ(memory.longest(bcast, 0), 0u);
  memory.set_rule(MemoryAgreement::Rule::at_every_call);
  EXPECT_TRUE(memory.count_nonblocking(bcast, 0));
  memory.learn(bcast, 0, 1);
  EXPECT_FALSE(memory.count_nonblocking(bcast, 0));
}

// Ranks that make the same calls always do the same: otherwise one would wait for ever.
TEST(memory_agreement, is_the_same_on_all_ranks) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  MemoryAgreement here, there;
  for (int call = 0; call < 10000; ++call) {
    const unsigned function = random() % 3;
    const uint64_t length = uint64_t{1} << (random() % 4 + 16);
    const bool due = here.count(function, length);
    ASSERT_EQ(due, there.count(function, length)) << "call " << call;
    if (!due) continue;
    const bool on_device = random() % 2 == 0;
    here.learn(function, length, on_device ? length : 0);
    there.learn(function, length, on_device ? length : 0);
  }
}

}  // namespace
}  // namespace fairlead::coll
