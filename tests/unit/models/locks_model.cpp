// SPDX-License-Identifier: Apache-2.0
// The locks of windows (rma/locks.h): writers are alone, readers see what writers before them have written,
// and nobody takes the owner of an accumulate lock for dead who has given it back.

#include <models/modelled.h>

#include "rma/locks.h"

namespace modelled::rma {
namespace {

using models::await;
using models::Machine;
using models::require;

struct Window {
  FairLock lock;
  AccumulateLock accumulate_lock;
  models::Plain<int> memory;
};

void enter(Window& window, bool exclusive) {
  const uint32_t ticket = window.lock.draw();
  await([&] { return window.lock.enter(ticket, exclusive); });
}
auto writer(const std::shared_ptr<Window>& window) {
  return [window] {
    enter(*window, true);
    window->memory.write(window->memory.read() + 1);
    window->lock.leave(true);
  };
}
auto reader(const std::shared_ptr<Window>& window) {
  return [window] {
    enter(*window, false);
    (void)window->memory.read();
    window->lock.leave(false);
  };
}

Machine::Program threads(int writers, int readers) {
  return [=](Machine::Run& run) {
    auto window = std::make_shared<Window>();
    for (int i = 0; i < writers; ++i) run.thread(writer(window));
    for (int i = 0; i < readers; ++i) run.thread(reader(window));
    run.in_the_end = [=] { require(window->memory.read() == writers, "a write is lost"); };
  };
}

TEST(Models, lock_of_a_window) {
  models::examine({threads(2, 0), threads(1, 1), threads(1, 2), threads(2, 1)});
}

auto accumulating(const std::shared_ptr<Window>& window, uint64_t me) {
  return [=] {
    await([&] { return window->accumulate_lock.take(me); });
    window->memory.write(window->memory.read() + 1);
    window->accumulate_lock.give_back();
  };
}

TEST(Models, accumulate_lock) {
  const auto threads = [](int count) {
    return [=](Machine::Run& run) {
      auto window = std::make_shared<Window>();
      for (int i = 0; i < count; ++i) run.thread(accumulating(window, static_cast<uint64_t>(i) + 1));
      run.in_the_end = [=] { require(window->memory.read() == count, "an accumulate is lost"); };
    };
  };
  models::examine({threads(2), threads(3)});
}

// As DeadOwnerDetector::owner_died() in rma/dead_owner.cpp. The kernel publishes what a process has stored
// before its PID is free.
TEST(Models, owner_that_dies_behind_its_accumulate) {
  struct Process : Window {
    std::atomic<bool> gone;
  };
  models::examine({[](Machine::Run& run) {
    auto owner = std::make_shared<Process>();
    run.thread([=] {
      accumulating(owner, 1)();
      owner->gone.store(true, std::memory_order_release);
    });
    run.thread([=] {
      await([&] {
        if (owner->accumulate_lock.take(2)) return true;
        const uint64_t holder = owner->accumulate_lock.holder();
        require(holder == 0 || !owner->gone.load(std::memory_order_acquire) ||
                    owner->accumulate_lock.holder() != holder,
                "an owner that has given the lock back is taken for dead");
        return false;
      });
      owner->memory.write(2);
      owner->accumulate_lock.give_back();
    });
  }});
}

}  // namespace
}  // namespace modelled::rma
