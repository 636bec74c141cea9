// SPDX-License-Identifier: Apache-2.0
//
// How often a step is repeated and how its time is taken: in up to a hundred equal batches, so that the clock
// is read rarely enough not to show in the shortest latencies, and often enough for percentiles.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <vector>

#include "bench/arguments.h"

namespace fairlead::tools {

struct Repetitions {
  int64_t timed = 0, warmup = 0;
};

// The OSU micro-benchmarks' defaults, or what the user asks for. `many` for single messages, which are
// repeated more often than windows of them.
inline Repetitions repetitions(const BenchArguments& arguments, uint64_t bytes, bool many) {
  constexpr uint64_t largest_small = 8192;
  bool small = bytes <= largest_small;
  int64_t usual = many ? (small ? 10000 : 1000) : (small ? 100 : 20);
  Repetitions r;
  r.timed = arguments.iterations >= 0 ? arguments.iterations : usual;
  r.warmup = arguments.warmup >= 0 ? arguments.warmup : std::max<int64_t>(r.timed / 100, 10);
  return r;
}

// Steps to do first, which tell how long one takes.
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

inline double mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

// Seconds per step, one value a batch.
template <class Step>
std::vector<double> time_batches(int64_t iterations, Step step) {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t batches = 100;
  int64_t batch = (iterations + batches - 1) / batches;
  std::vector<double> seconds;
  for (int64_t done = 0; done < iterations; done += batch) {
    int64_t steps = std::min(batch, iterations - done);
    auto start = Clock::now();
    for (int64_t i = 0; i < steps; ++i) step();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count() / double(steps));
  }
  return seconds;
}

}  // namespace fairlead::tools
