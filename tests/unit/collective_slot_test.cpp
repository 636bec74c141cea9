// SPDX-License-Identifier: Apache-2.0
// The capabilities of the members of a collective slot give one decision, the same for all: on the GPU if all
// can, by NCCL if all announce that, else through the host MPI. A member may withdraw until the decision is
// made.

#include "coll/collective_slot.h"

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <thread>

namespace fairlead::coll {
namespace {

// Three members of one process.
class Three : public testing::Test {
 protected:
  static constexpr int count = 3;

  Three() : hall_(SlotPool::create(count), count, 0) {
    SlotHeader* slot = hall_.slot(hall_.take(count));
    for (int member = 0; member < count; ++member)
      members_.push_back(std::make_unique<CollectiveSlot>(slot, count, member));
  }

  // Of the next collective.
  Decision outcome_of(std::initializer_list<Capability> capabilities) {
    ++number_;
    int member = 0;
    for (Capability capability : capabilities)
      members_[static_cast<size_t>(member++)]->arrive(number_, capability);
    Decision first = members_[0]->outcome(number_, outcomes_stand_);
    for (auto& other : members_) EXPECT_EQ(other->outcome(number_, outcomes_stand_), first);
    return first;
  }

  SlotPool hall_;
  std::vector<std::unique_ptr<CollectiveSlot>> members_;
  uint64_t number_ = 0;
  CollectiveSlot::Capabilities outcomes_stand_ = CollectiveSlot::Capabilities::may_be_withdrawn;
};

TEST_F(Three, decide_by_their_votes) {
  using enum Capability;
  EXPECT_EQ(outcome_of({device, device}), Decision::undecided);
  EXPECT_EQ(outcome_of({device, device, device}), Decision::gpu);
  EXPECT_EQ(outcome_of({device, nothing, device}), Decision::gpu);
  EXPECT_EQ(outcome_of({nothing, nothing, nothing}), Decision::staged);
  EXPECT_EQ(outcome_of({device, host}), Decision::staged);
  EXPECT_EQ(outcome_of({device, staged}), Decision::staged);
}

TEST_F(Three, take_nccl_when_all_of_them_can) {
  using enum Capability;
  EXPECT_EQ(outcome_of({nccl, nccl}), Decision::undecided);
  EXPECT_EQ(outcome_of({nccl, nccl, nccl}), Decision::nccl);
  EXPECT_EQ(outcome_of({nccl, nccl, device}), Decision::gpu);
  EXPECT_EQ(outcome_of({nothing, nccl, nccl}), Decision::gpu);
  EXPECT_EQ(outcome_of({nccl, nccl, host}), Decision::staged);
  EXPECT_EQ(outcome_of({staged, nccl}), Decision::staged);
}

TEST_F(Three, meet_in_a_kernel_when_all_of_them_can_and_none_may_withdraw) {
  using enum Capability;
  const auto outcome_that_stands = [&](std::initializer_list<Capability> capabilities) {
    outcomes_stand_ = CollectiveSlot::Capabilities::stand;
    return outcome_of(capabilities);
  };
  EXPECT_EQ(outcome_that_stands({meets, meets}), Decision::undecided);
  EXPECT_EQ(outcome_that_stands({meets, meets, meets}), Decision::met);
  EXPECT_EQ(outcome_that_stands({meets, device, meets}), Decision::gpu);
  EXPECT_EQ(outcome_that_stands({meets, nccl, meets}), Decision::gpu);
  EXPECT_EQ(outcome_that_stands({meets, nothing, meets}), Decision::gpu);
  EXPECT_EQ(outcome_that_stands({meets, staged}), Decision::staged);
}

TEST_F(Three, may_withdraw_until_it_is_decided) {
  using enum Capability;
  EXPECT_EQ(outcome_of({nccl, nccl}), Decision::undecided);
  EXPECT_EQ(members_[1]->withdraw(number_), Decision::staged);
  members_[2]->arrive(number_, nccl);
  for (auto& member : members_) EXPECT_EQ(member->outcome(number_), Decision::staged);
  EXPECT_EQ(outcome_of({nccl, nccl, nccl}), Decision::nccl);
  EXPECT_EQ(members_[1]->withdraw(number_), Decision::nccl);
}

// A member goes to the host MPI beyond the words that are kept; those that follow come to the same decisions,
// and those that it has a word for are as it said.
TEST_F(Three, follow_one_that_goes_ahead) {
  using enum Capability;
  for (uint64_t number = 1; members_[0]->may_arrive(number); ++number) members_[0]->arrive(number, device);
  for (uint64_t number = arrivals_kept + 1; number <= 3 * arrivals_kept; ++number)
    members_[0]->go_ahead(number);
  for (number_ = 1; number_ <= 3 * arrivals_kept; ++number_) {
    for (int behind : {1, 2}) {
      auto& member = members_[static_cast<size_t>(behind)];
      ASSERT_TRUE(member->may_arrive(number_));
      member->arrive(number_, device);
    }
    const Decision wanted = number_ <= arrivals_kept ? Decision::gpu : Decision::staged;
    for (int behind : {1, 2}) EXPECT_EQ(members_[static_cast<size_t>(behind)]->outcome(number_), wanted);
    for (auto& member : members_) member->pass(number_);
  }
  EXPECT_TRUE(members_[0]->may_arrive(number_));
  EXPECT_EQ(members_[0]->outcome(number_), Decision::undecided);
}

TEST_F(Three, let_the_first_that_looks_choose_who_does_the_work) {
  using enum Workers::Are;
  EXPECT_EQ(members_[0]->workers(1), Workers{});
  EXPECT_EQ(members_[1]->propose(1, {one, 1}), (Workers{one, 1}));
  EXPECT_EQ(members_[2]->propose(1, {one, 2}), (Workers{one, 1}));
  EXPECT_EQ(members_[0]->propose(1, {each}), (Workers{one, 1}));
  members_[1]->announce(1, {one_that_has_started, 1});
  EXPECT_EQ(members_[0]->workers(1), (Workers{one_that_has_started, 1}));
  // The word serves another collective later.
  const uint64_t later = 1 + records_kept;
  EXPECT_EQ(members_[0]->workers(later), Workers{});
  EXPECT_EQ(members_[0]->propose(later, {each}), Workers{each});
  EXPECT_EQ(members_[1]->workers(1), Workers{});
}

TEST_F(Three, see_which_of_them_have_done_their_parts) {
  members_[1]->set_done(1);
  for (const auto& member : members_) {
    EXPECT_FALSE(member->is_done(0, 1));
    EXPECT_TRUE(member->is_done(1, 1));
  }
  // The word serves another collective later; no other does.
  const uint64_t later = 1 + records_kept;
  EXPECT_FALSE(members_[0]->is_done(1, later));
  for (uint64_t number = 2; number < later; ++number) members_[1]->set_done(number);
  EXPECT_TRUE(members_[0]->is_done(1, 1));
  members_[1]->set_done(later);
  EXPECT_TRUE(members_[0]->is_done(1, later));
  EXPECT_FALSE(members_[0]->is_done(1, 1));
}

TEST_F(Three, have_no_words_for_kernels_before_they_are_registered) {
  EXPECT_FALSE(members_[0]->word_of_part(1, 0));
  EXPECT_FALSE(members_[0]->word_of_end(1, 0));
}

// Words that another process has damaged: all members come to the same decision, and nothing is indexed by
// what is wrong.
TEST_F(Three, are_not_led_astray_by_damaged_words) {
  const uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  auto any = [&] {
    return random() % 2 ? random() >> random() % 64 : number_ * (random() % 300) + random() % 8;
  };
  SlotHeader& slot = members_[0]->slot();
  int decided = 0, found = 0;
  for (number_ = 1; number_ < 3000; ++number_) {
    for (auto& member : members_)
      member->arrive(number_, random() % 8 ? Capability::device : Capability::host);
    auto* words = reinterpret_cast<uint64_t*>(&slot);
    const size_t header = sizeof(SlotHeader) / 8, all = header + count * sizeof(MemberArea) / 8;
    for (int i = 0; i < 100; ++i) words[1 + random() % (all - 1)] = any();
    for (auto* kept : {&slot.decisions[number_ % arrivals_kept], &slot.workers[number_ % records_kept]})
      if (random() % 2)
        kept->store(number_ * (kept == &slot.workers[number_ % records_kept] ? 256 : 4) + random() % 4);
    const Decision first = members_[0]->outcome(number_);
    decided += first != Decision::undecided;
    for (auto& member : members_) {
      ASSERT_EQ(member->outcome(number_), first) << "seed " << seed;
      const Workers workers = member->propose(number_, {Workers::Are::each});
      ASSERT_NE(workers.are, Workers::Are::undecided) << "seed " << seed;
      found += member->is_damaged(number_);
      if (member->is_damaged(number_)) continue;
      ASSERT_LT(workers.member, count) << "seed " << seed;
    }
  }
  EXPECT_GT(decided, 100) << "too few are decided to prove anything";
  EXPECT_GT(found, 100) << "too few are damaged to prove anything";
}

TEST_F(Three, find_words_of_calls_to_come) {
  const uint64_t number = 5, index = number % records_kept;
  SlotHeader& slot = members_[0]->slot();
  Record& record = members_[0]->record(1, number);
  EXPECT_FALSE(members_[2]->is_damaged(number));
  record.exported = number * 2 + 1;
  record.ready = number * 2;
  members_[1]->set_done(number);
  slot.ended[index] = number;
  EXPECT_FALSE(members_[2]->is_damaged(number)) << "these are of this call";
  auto is_found = [&](auto& word, uint64_t wrong) {
    const uint64_t before = word;
    word = wrong;
    EXPECT_TRUE(members_[2]->is_damaged(number)) << wrong;
    word = before;
  };
  is_found(record.exported, (number + 1) * 2);
  is_found(record.ready, UINT64_MAX);
  is_found(slot.done[index][1], number + records_kept);
  is_found(slot.ended[index], number + 1);
  is_found(slot.workers[index], number * 256 + 2 * 64 + count);
  EXPECT_FALSE(members_[2]->is_damaged(number));
}

// Each that was never used would take memory.
TEST(ASlotPool, gives_away_slots_again_before_others) {
  SlotPool pool(SlotPool::create(2), 2, 1);
  const int64_t kept = pool.take(1), left = pool.take(1);
  EXPECT_NE(left, kept);
  for (int i = 0; i < 3; ++i) {
    CollectiveSlot(pool.slot(left), 1, 0);
    EXPECT_EQ(pool.take(1), left);
  }
}

TEST_F(Three, miss_words_that_they_have_stored) {
  const uint64_t number = 5;
  auto* const areas = reinterpret_cast<MemberArea*>(&members_[0]->slot() + 1);
  members_[0]->pass(number - 1);
  members_[0]->arrive(number, Capability::device);
  EXPECT_FALSE(members_[0]->is_damaged(number));
  for (std::atomic<uint64_t>* word : {&areas[0].passed, &areas[0].arrivals[number % arrivals_kept]}) {
    const uint64_t before = word->exchange(1);
    EXPECT_TRUE(members_[0]->is_damaged(number));
    *word = before;
  }
  EXPECT_FALSE(members_[0]->is_damaged(number));
}

TEST_F(Three, miss_words_of_members_that_are_past_a_collective) {
  const uint64_t number = 5;
  members_[1]->arrive(number, Capability::device);
  EXPECT_FALSE(members_[0]->any_other_passed(number));
  members_[1]->pass(number);
  EXPECT_TRUE(members_[0]->any_other_passed(number));
  EXPECT_FALSE(members_[1]->any_other_passed(number)) << "only itself";
  EXPECT_FALSE(members_[0]->is_damaged(number));
  reinterpret_cast<MemberArea*>(&members_[0]->slot() + 1)[1].arrivals[number % arrivals_kept] = 0;
  EXPECT_TRUE(members_[0]->is_damaged(number));
  members_[1]->give_up(number);
  EXPECT_FALSE(members_[0]->any_other_passed(number)) << "who gives up stores no more words";
}

// Threads that make communicators at the same time get a place for each.
TEST(ASlotPool, gives_each_thread_slots_of_its_own) {
  constexpr int threads = 4, slots_each = 250;
  SlotPool pool(SlotPool::create(1), 1, 0);
  std::vector<std::vector<int64_t>> taken(threads);
  std::vector<std::thread> running;
  for (std::vector<int64_t>& mine : taken)
    running.emplace_back([&] {
      for (int i = 0; i < slots_each; ++i) mine.push_back(pool.take(1));
    });
  for (std::thread& thread : running) thread.join();
  std::set<int64_t> different;
  for (const std::vector<int64_t>& of_one : taken) different.insert(of_one.begin(), of_one.end());
  EXPECT_FALSE(different.contains(-1));
  EXPECT_EQ(different.size(), size_t{threads * slots_each});
}

}  // namespace
}  // namespace fairlead::coll
