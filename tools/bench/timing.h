// SPDX-License-Identifier: Apache-2.0
//
// How often a step is repeated and how its time is taken: each by itself, so that percentiles are those of
// single messages; two readings of the clock, some 40 ns, are in each. Only very many steps are taken in
// groups.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "bench/distribution.h"
#include "bench/options/arguments.h"

namespace fairlead::tools {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Repetitions {
  int64_t timed = 0, warmup = 0;
};

// What the user asks for, else what is usual.
inline Repetitions repetitions(const BenchArguments& arguments, uint64_t bytes, UsualIterations usual) {
  Repetitions r;
  r.timed = arguments.iterations >= 0     ? arguments.iterations
            : bytes <= largest_small_size ? usual.small
                                          : usual.large;
  r.warmup = arguments.warmup >= 0 ? arguments.warmup : std::max<int64_t>(r.timed / 100, 10);
  return r;
}

// Steps to do first, whose median tells how long one takes: the first of them may allocate and map memory.
inline constexpr int64_t trial_steps = 10;

// Fewer than usual, where the user gave no number and a size would take longer than a second; or a tenth of
// one on a simulated GPU, whose times nobody needs precisely.
inline Repetitions within_budget(const BenchArguments& arguments, Repetitions r, double seconds_per_step,
                                 bool simulated) {
  double budget_s = simulated ? 0.1 : 1.0;
  if (arguments.iterations < 0 && seconds_per_step > 0)
    r.timed = std::clamp(static_cast<int64_t>(budget_s / seconds_per_step), std::min(trial_steps, r.timed),
                         r.timed);
  if (arguments.warmup < 0) r.warmup = std::min(r.warmup, r.timed);
  return r;
}

// Seconds per step, one value a batch; `seconds_of(steps)` does a batch.
template <class Batch>
std::vector<double> batches(int64_t iterations, Batch seconds_of) {
  constexpr int64_t most = 100'000;
  if (iterations <= 0) return {};
  const int64_t batch = (iterations + most - 1) / most;
  std::vector<double> seconds(static_cast<size_t>((iterations + batch - 1) / batch));  // no page fault later
  for (double& each : seconds) {
    int64_t steps = std::min(batch, iterations);
    each = seconds_of(steps) / double(steps);
    iterations -= steps;
  }
  return seconds;
}

template <class Step>
std::vector<double> time_batches(int64_t iterations, Step step) {
  using Clock = std::chrono::steady_clock;
  return batches(iterations, [&](int64_t steps) {
    auto start = Clock::now();
    for (int64_t i = 0; i < steps; ++i) step();
    return std::chrono::duration<double>(Clock::now() - start).count();
  });
}

}  // namespace fairlead::tools
