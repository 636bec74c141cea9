// SPDX-License-Identifier: Apache-2.0
//
// Schedules active tasks fairly. A round advances a limited number of tasks; the others follow in later
// rounds. The time of a round is therefore independent of the number of tasks, and so is the time to add or
// remove one.
//
// A task may await an event that other tasks also await, in the order in which they were added (receives that
// wait for a message). Among tasks with the same key the schedule advances the first in each round. Of all
// the others it advances one per round, in turn: to advance them is the most expensive part, but the event
// for the first task may come later than the event for the next.
//
// A Task has a member `scheduled` and the functions advance(); awaits(), which returns the key or null; and
// rests(), which returns whether it needs no further advance(). Not thread-safe.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace fairlead {

template <class Task>
struct Links {
  Task *next = nullptr, *previous = nullptr;
};

template <class Task, int which>
class Ring;

// The schedule's data in each task.
template <class Task>
struct Scheduled {
  Links<Task> links[2];
  Ring<Task, 0>* ring = nullptr;   // the ring of its turns; null while it rests
  Ring<Task, 1>* queue = nullptr;  // the tasks with the same key
  uint64_t round = 0;              // of its last turn
  bool there = false;              // was added and not removed
};

// An intrusive circular list of tasks in the order in which they were added, with a cursor to the task whose
// turn is next.
template <class Task, int which>
class Ring {
 public:
  bool empty() const { return !front_; }
  Task* front() const { return front_; }
  Task* next() const { return next_; }
  void turn() { next_ = of(next_).next; }
  void push_back(Task* task) {
    if (!front_) {
      of(task) = {task, task};
      front_ = next_ = task;
      return;
    }
    Task* last = of(front_).previous;
    of(task) = {front_, last};
    of(last).next = of(front_).previous = task;
  }
  // Appends the task and gives it the next turn.
  void push_next(Task* task) {
    push_back(task);
    next_ = task;
  }
  void remove(Task* task) {
    const auto [next, previous] = of(task);
    of(previous).next = next;
    of(next).previous = previous;
    for (Task** at : {&front_, &next_})
      if (*at == task) *at = next == task ? nullptr : next;
    of(task) = {};
  }
  template <class Visit>
  void for_each(const Visit& visit) const {
    if (empty()) return;
    Task* task = front_;
    do visit(task);
    while ((task = of(task).next) != front_);
  }

 private:
  static Links<Task>& of(Task* task) { return task->scheduled.links[which]; }
  Task *front_ = nullptr, *next_ = nullptr;
};

template <class Task, class Key, class Hash>
class Schedule {
 public:
  static constexpr size_t turns_of_a_round = 256, asked_in_a_round = 64;

  void add(Task* task) {
    task->scheduled = {};
    task->scheduled.there = true;
    ++size_;
    insert(task);
  }
  // Returns false if the task is not scheduled.
  bool remove(Task* task) {
    if (!task->scheduled.there) return false;
    take_out(task);
    task->scheduled.there = false;
    --size_;
    return true;
  }

  // Runs one round. Calls after(task) after each turn; that call may remove the task.
  template <class After>
  void advance(const After& after) {
    ++round_;
    for (auto [ring, turns] : {Turns{&active_, turns_of_a_round}, {&first_, asked_in_a_round}, {&behind_, 1}})
      for (; turns > 0 && !ring->empty() && ring->next()->scheduled.round != round_; --turns)
        advance_next(ring, after);
  }

  // Visits all tasks that do not rest.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const Places* ring : {&active_, &first_, &behind_}) ring->for_each(visit);
  }

  size_t size() const { return size_; }
  bool any_awaits() const { return !first_.empty(); }
  // Visits the tasks that neither await anything nor rest, in the order in which they were added or stopped
  // awaiting.
  template <class Visit>
  void for_each_active(const Visit& visit) const {
    active_.for_each(visit);
  }

 private:
  using Places = Ring<Task, 0>;
  using Queue = Ring<Task, 1>;
  struct Turns {
    Places* ring;
    size_t turns;
  };

  template <class After>
  void advance_next(Places* ring, const After& after) {
    Task* task = ring->next();
    ring->turn();
    task->scheduled.round = round_;
    const bool awaited = task->awaits();
    task->advance();
    if (awaited != (task->awaits() != nullptr) || task->rests()) {
      take_out(task);
      insert(task);
    }
    after(task);
  }

  void insert(Task* task) {
    if (const Key* key = task->awaits()) {
      Queue& queue = queue_of(*key);
      put_into(queue.empty() ? first_ : behind_, task);
      queue.push_back(task);
      task->scheduled.queue = &queue;
    } else if (!task->rests()) {
      put_into(active_, task);
    }
  }

  static void put_into(Places& ring, Task* task) {
    ring.push_back(task);
    task->scheduled.ring = &ring;
  }

  void take_out(Task* task) {
    Scheduled<Task>& its = task->scheduled;
    if (its.ring) its.ring->remove(task);
    its.ring = nullptr;
    if (!its.queue) return;
    Queue& queue = *its.queue;
    its.queue = nullptr;
    const bool was_first = queue.front() == task;
    queue.remove(task);
    if (was_first && !queue.empty()) move_up(queue.front());
  }

  // The next task of the key gets its turn in the same round.
  void move_up(Task* next) {
    behind_.remove(next);
    first_.push_next(next);
    next->scheduled.ring = &first_;
  }

  // Empty queues stay, because the same key usually occurs again.
  Queue& queue_of(const Key& key) {
    if (queues_.size() >= queues_allowed_) {
      std::erase_if(queues_, [](const auto& queue) { return queue.second.empty(); });
      queues_allowed_ = std::max(queues_allowed_, 2 * queues_.size());
    }
    return queues_[key];
  }

  Places active_, first_, behind_;
  std::unordered_map<Key, Queue, Hash> queues_;
  size_t queues_allowed_ = 1024;
  size_t size_ = 0;
  uint64_t round_ = 0;
};

}  // namespace fairlead
