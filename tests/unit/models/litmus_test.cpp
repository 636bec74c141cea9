// SPDX-License-Identifier: Apache-2.0
// The machine permits what C++ and Arm permit, and nothing else: the litmus tests of the literature, each
// with orders that permit its outcome and with orders that forbid it.

#include <gtest/gtest.h>
#include <models/modelled.h>

namespace modelled {
namespace {

using models::Machine;
constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
               release = std::memory_order_release, seq_cst = std::memory_order_seq_cst;

struct State {
  std::atomic<int> x, y;
  models::Plain<int> plain;
  int seen[6] = {};
};

// Is there an execution after which the outcome holds?
template <class Outcome>
bool happens(std::vector<std::function<void(State&)>> threads, Outcome outcome) {
  const auto result = Machine::only().explore([&](Machine::Run& run) {
    auto state = std::make_shared<State>();
    for (const auto& thread : threads) run.thread([state, thread] { thread(*state); });
    run.in_the_end = [state, outcome] { models::require(!outcome(*state), "it happens"); };
  });
  EXPECT_TRUE(result.violation.empty() || result.violation == "it happens") << result.violation;
  return !result.violation.empty();
}

bool store_buffers(std::memory_order store, std::memory_order load, bool fences = false) {
  const auto side = [=](std::atomic<int> State::*mine, std::atomic<int> State::*other, int which) {
    return [=](State& state) {
      (state.*mine).store(1, store);
      if (fences) std::atomic_thread_fence(seq_cst);
      state.seen[which] = (state.*other).load(load);
    };
  };
  return happens({side(&State::x, &State::y, 0), side(&State::y, &State::x, 1)},
                 [](State& state) { return state.seen[0] == 0 && state.seen[1] == 0; });
}

TEST(Litmus, store_buffering) {
  EXPECT_TRUE(store_buffers(release, acquire));
  EXPECT_TRUE(store_buffers(seq_cst, acquire));
  EXPECT_FALSE(store_buffers(seq_cst, seq_cst));
  EXPECT_FALSE(store_buffers(relaxed, relaxed, true));
}

bool passes_stale_message(std::memory_order store, std::memory_order load) {
  return happens({[=](State& state) {
                    state.x.store(1, relaxed);
                    state.y.store(1, store);
                  },
                  [=](State& state) {
                    state.seen[0] = state.y.load(load);
                    state.seen[1] = state.x.load(relaxed);
                  }},
                 [](State& state) { return state.seen[0] == 1 && state.seen[1] == 0; });
}

TEST(Litmus, message_passing) {
  EXPECT_TRUE(passes_stale_message(relaxed, acquire));
  EXPECT_TRUE(passes_stale_message(release, relaxed));
  EXPECT_FALSE(passes_stale_message(release, acquire));
}

TEST(Litmus, plain_data_is_raced_for_unless_it_is_published) {
  for (const bool published : {false, true}) {
    const auto result = Machine::only().explore([=](Machine::Run& run) {
      auto state = std::make_shared<State>();
      run.thread([=] {
        state->plain.write(1);
        state->x.store(1, published ? release : relaxed);
      });
      run.thread([=] {
        if (state->x.load(acquire)) state->plain.write(2);
      });
    });
    EXPECT_EQ(result.violation, published ? "" : "a data race");
  }
}

// Two writers, and two readers that see them in different orders.
bool readers_disagree(std::memory_order store, std::memory_order load) {
  return happens(
      {[=](State& state) { state.x.store(1, store); }, [=](State& state) { state.y.store(1, store); },
       [=](State& state) {
         state.seen[0] = state.x.load(load);
         state.seen[1] = state.y.load(load);
       },
       [=](State& state) {
         state.seen[2] = state.y.load(load);
         state.seen[3] = state.x.load(load);
       }},
      [](State& state) {
        return state.seen[0] == 1 && state.seen[1] == 0 && state.seen[2] == 1 && state.seen[3] == 0;
      });
}

TEST(Litmus, independent_reads_of_independent_writes) {
  EXPECT_TRUE(readers_disagree(release, acquire));
  EXPECT_FALSE(readers_disagree(seq_cst, seq_cst));
}

bool writes_cross(std::memory_order order) {
  const auto side = [=](std::atomic<int> State::*first, std::atomic<int> State::*second) {
    return [=](State& state) {
      (state.*first).store(1, order);
      (state.*second).store(2, order);
    };
  };
  return happens({side(&State::x, &State::y), side(&State::y, &State::x)},
                 [](State& state) { return state.x == 1 && state.y == 1; });
}

TEST(Litmus, two_times_two_writes) {
  EXPECT_TRUE(writes_cross(release));
  EXPECT_FALSE(writes_cross(seq_cst));
}

TEST(Litmus, coherence) {
  EXPECT_FALSE(happens({[](State& state) {
                          state.x.store(1, relaxed);
                          state.x.store(2, relaxed);
                        },
                        [](State& state) {
                          state.seen[0] = state.x.load(relaxed);
                          state.seen[1] = state.x.load(relaxed);
                        }},
                       [](State& state) { return state.seen[0] > state.seen[1]; }));
  // Read-modify-writes are not lost.
  const auto add = [](State& state) { state.x.fetch_add(1, relaxed); };
  EXPECT_FALSE(happens({add, add, add}, [](State& state) { return state.x != 3; }));
}

TEST(Litmus, release_sequences_go_on_through_exchanges_alone) {
  const auto publish = [](State& state) {
    state.y.store(1, relaxed);
    state.x.store(1, release);
  };
  const auto look = [](State& state) {
    state.seen[0] = state.x.load(acquire);
    state.seen[1] = state.y.load(relaxed);
  };
  const auto stale = [](State& state) { return state.seen[0] == 2 && state.seen[1] == 0; };
  EXPECT_FALSE(happens({publish, look,
                        [](State& state) {
                          int one = 1;
                          state.x.compare_exchange_strong(one, 2, relaxed);
                        }},
                       stale));
  EXPECT_TRUE(happens({publish, look,
                       [](State& state) {
                         if (state.x.load(relaxed) == 1) state.x.store(2, relaxed);
                       }},
                      stale));
}

// A sequence lock without a fence behind the mark: x marks, y is written.
TEST(Litmus, a_store_behind_an_exchange_may_come_before_it) {
  for (const bool fenced : {false, true})
    EXPECT_NE(fenced, happens({[=](State& state) {
                                 int free = 0;
                                 state.x.compare_exchange_strong(free, 1);
                                 if (fenced) std::atomic_thread_fence(release);
                                 state.y.store(1, relaxed);
                               },
                               [](State& state) {
                                 state.seen[0] = state.y.load(relaxed);
                                 std::atomic_thread_fence(acquire);
                                 state.seen[1] = state.x.load(relaxed);
                               }},
                              [](State& state) { return state.seen[0] == 1 && state.seen[1] == 0; }));
}

TEST(Litmus, a_thread_that_waits_in_vain_is_found) {
  const auto result = Machine::only().explore([](Machine::Run& run) {
    auto state = std::make_shared<State>();
    run.thread([=] { state->x.store(1, relaxed); });
    run.thread([=] { models::await([&] { return state->x.load(relaxed) == 2; }); });
  });
  EXPECT_EQ(result.violation, "a thread waits for ever");
}

}  // namespace
}  // namespace modelled
