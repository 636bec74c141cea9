// SPDX-License-Identifier: Apache-2.0
// What the members of a meeting have voted makes one decision, the same for all: on the GPU when all can, by
// NCCL when all have voted for that, else through the host MPI. A member may withdraw until it is made.

#include "coll/meeting.h"

#include <gtest/gtest.h>

#include <memory>

namespace fairlead::coll {
namespace {

// Three members of one process.
class Three : public testing::Test {
 protected:
  static constexpr int count = 3;

  Three() : hall_(Hall::create(count), count, 0) {
    SlotHeader* slot = hall_.slot(hall_.take(count));
    for (int member = 0; member < count; ++member)
      members_.push_back(std::make_unique<Meeting>(slot, count, member));
  }

  // Of the next collective.
  Outcome outcome_of(std::initializer_list<Vote> votes) {
    ++number_;
    int member = 0;
    for (Vote vote : votes) members_[static_cast<size_t>(member++)]->arrive(number_, vote);
    Outcome first = members_[0]->outcome(number_);
    for (auto& other : members_) EXPECT_EQ(other->outcome(number_), first);
    return first;
  }

  Hall hall_;
  std::vector<std::unique_ptr<Meeting>> members_;
  uint64_t number_ = 0;
};

TEST_F(Three, decide_by_their_votes) {
  using enum Vote;
  EXPECT_EQ(outcome_of({device, device}), Outcome::undecided);
  EXPECT_EQ(outcome_of({device, device, device}), Outcome::gpu);
  EXPECT_EQ(outcome_of({device, nothing, device}), Outcome::gpu);
  EXPECT_EQ(outcome_of({nothing, nothing, nothing}), Outcome::staged);
  EXPECT_EQ(outcome_of({device, host}), Outcome::staged);
  EXPECT_EQ(outcome_of({device, staged}), Outcome::staged);
}

TEST_F(Three, take_nccl_when_all_of_them_can) {
  using enum Vote;
  EXPECT_EQ(outcome_of({nccl, nccl}), Outcome::undecided);
  EXPECT_EQ(outcome_of({nccl, nccl, nccl}), Outcome::nccl);
  EXPECT_EQ(outcome_of({nccl, nccl, device}), Outcome::gpu);
  EXPECT_EQ(outcome_of({nothing, nccl, nccl}), Outcome::gpu);
  EXPECT_EQ(outcome_of({nccl, nccl, host}), Outcome::staged);
  EXPECT_EQ(outcome_of({staged, nccl}), Outcome::staged);
}

TEST_F(Three, may_withdraw_until_it_is_decided) {
  using enum Vote;
  EXPECT_EQ(outcome_of({nccl, nccl}), Outcome::undecided);
  EXPECT_EQ(members_[1]->withdraw(number_), Outcome::staged);
  members_[2]->arrive(number_, nccl);
  for (auto& member : members_) EXPECT_EQ(member->outcome(number_), Outcome::staged);
  EXPECT_EQ(outcome_of({nccl, nccl, nccl}), Outcome::nccl);
  EXPECT_EQ(members_[1]->withdraw(number_), Outcome::nccl);
}

}  // namespace
}  // namespace fairlead::coll
