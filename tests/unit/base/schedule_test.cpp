// SPDX-License-Identifier: Apache-2.0
//
// Whose turn it is among tasks that are under way: a round costs the same however many there are, and
// everybody has a turn.

#include "base/schedule.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

using fairlead::Schedule;
using fairlead::Scheduled;

namespace {

int turns;  // of all tasks

struct Task {
  explicit Task(int key = -1) : key(key) {}
  void advance() {
    ++turns;
    ++own_turns;
    if (here) key = -1;
    if (key < 0 && ends) over = true;
  }
  const int* awaits() const { return key >= 0 ? &key : nullptr; }
  bool rests() const { return over; }

  int key, own_turns = 0;
  bool here = false;  // what it awaits
  bool ends = false, over = false;
  Scheduled<Task> scheduled;
};

using OfTasks = Schedule<Task, int, std::hash<int>>;

class ScheduleTest : public testing::Test {
 protected:
  ScheduleTest() { turns = 0; }
  Task& add(int key = -1) {
    tasks.push_back(std::make_unique<Task>(key));
    schedule.add(tasks.back().get());
    return *tasks.back();
  }
  int round() {
    const int before = turns;
    schedule.advance([](Task*) {});
    return turns - before;
  }
  std::vector<std::unique_ptr<Task>> tasks;
  OfTasks schedule;
};

constexpr int many = 20000;
constexpr int most = OfTasks::turns_of_a_round + OfTasks::asked_in_a_round + 1;

TEST_F(ScheduleTest, a_round_costs_the_same_however_many_tasks_there_are) {
  for (int i = 0; i < many; ++i) {
    add();       // active
    add(1);      // all await one thing
    add(2 + i);  // each awaits another
    if (i % 100 == 0) {
      EXPECT_LE(round(), most);
    }
  }
  EXPECT_EQ(schedule.size(), 3U * many);
}

TEST_F(ScheduleTest, everybody_has_a_turn) {
  for (int i = 0; i < 1000; ++i) {
    add();
    add(1);
    add(2 + i);
  }
  for (int i = 0; i < 1001; ++i) round();
  for (const auto& task : tasks) EXPECT_GT(task->own_turns, 0);
}

TEST_F(ScheduleTest, few_tasks_have_one_turn_in_each_round) {
  for (int i = 0; i < 50; ++i) add(), add(i);
  for (int rounds = 1; rounds < 4; ++rounds) {
    EXPECT_EQ(round(), 100);
    for (const auto& task : tasks) EXPECT_EQ(task->own_turns, rounds);
  }
}

TEST_F(ScheduleTest, of_one_key_the_first_is_asked_and_one_more) {
  for (int i = 0; i < 10; ++i) add(7);
  EXPECT_EQ(round(), 2);
  EXPECT_EQ(round(), 2);
  EXPECT_EQ(tasks[0]->own_turns, 2);
  EXPECT_EQ(tasks[1]->own_turns + tasks[2]->own_turns, 2);
}

TEST_F(ScheduleTest, those_whose_thing_is_here_follow_each_other_in_one_round) {
  for (int i = 0; i < 10; ++i) add(7).here = i < 6;
  round();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(tasks[static_cast<size_t>(i)]->awaits() == nullptr, i < 6) << i;
}

TEST_F(ScheduleTest, what_rests_has_no_turn_and_is_there) {
  Task& task = add(3);
  task.here = task.ends = true;
  while (!task.over) round();
  EXPECT_EQ(round(), 0);
  EXPECT_EQ(schedule.size(), 1U);
  EXPECT_TRUE(schedule.remove(&task));
  EXPECT_FALSE(schedule.remove(&task));
  EXPECT_EQ(schedule.size(), 0U);
}

TEST_F(ScheduleTest, removed_anywhere_they_leave_the_others_in_order) {
  for (int i = 0; i < 9; ++i) add(5);
  for (size_t gone : {0U, 4U, 8U, 1U}) EXPECT_TRUE(schedule.remove(tasks[gone].get()));
  const size_t left[] = {2, 3, 5, 6, 7};
  for (size_t next : left) {
    const int before = tasks[next]->own_turns;
    round();
    EXPECT_GT(tasks[next]->own_turns, before) << next;
    EXPECT_TRUE(schedule.remove(tasks[next].get()));
  }
  EXPECT_FALSE(schedule.any_awaits());
  EXPECT_EQ(round(), 0);
}

TEST_F(ScheduleTest, the_active_are_visited_in_the_order_in_which_they_were_added) {
  for (int i = 0; i < 700; ++i) add();
  schedule.remove(tasks[0].get());
  for (int rounds = 0; rounds < 4; ++rounds) {
    size_t next = 1;
    schedule.for_each_active([&](Task* task) { EXPECT_EQ(task, tasks[next++].get()); });
    EXPECT_EQ(next, tasks.size());
    round();
  }
}

TEST_F(ScheduleTest, a_task_may_be_removed_after_its_turn) {
  for (int i = 0; i < 600; ++i) add();
  while (schedule.size() > 0) schedule.advance([&](Task* task) { schedule.remove(task); });
  EXPECT_EQ(turns, 600);
}

TEST_F(ScheduleTest, keys_come_and_go) {
  for (int i = 0; i < many; ++i) {
    Task& task = add(i);
    EXPECT_EQ(round(), 1);
    EXPECT_TRUE(schedule.remove(&task));
  }
}

}  // namespace
