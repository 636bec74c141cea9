// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/overlap.h"

#include <algorithm>
#include <chrono>

namespace fairlead::tools {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Arithmetic each step of which needs the one before, so that its time does not depend on what else the core
// does.
void compute(int64_t rounds) {
  volatile double kept = 1;
  double value = kept;
  for (int64_t i = 0; i < rounds; ++i) value = value * 1.0000001 + 1e-9;
  kept = value;
}

// The least of some tries: the others were disturbed.
double seconds_per_round() {
  constexpr int64_t rounds = 20000;
  double least = 1;
  for (int i = 0; i < 10; ++i) {
    auto start = Clock::now();
    compute(rounds);
    least = std::min(least, seconds_since(start));
  }
  return least / rounds;
}

}  // namespace

Overlap measure_overlap(MpiCollective& collective, const std::function<CollectiveCall()>& next_call,
                        int64_t iterations, double compute_s, int tests) {
  static const double round_s = seconds_per_round();
  const auto rounds = static_cast<int64_t>(compute_s / round_s / (tests + 1));
  double overall = 0, starting = 0, between = 0, testing = 0, waiting = 0;
  for (int64_t i = 0; i < iterations; ++i) {
    CollectiveCall call = next_call();
    auto begin = Clock::now();
    MPI_Request request = collective.start(call);
    starting += seconds_since(begin);
    auto started = Clock::now();
    for (int test = 0; test < tests; ++test) {
      compute(rounds);
      auto before = Clock::now();
      collective.test(&request);
      testing += seconds_since(before);
    }
    compute(rounds);
    between += seconds_since(started);
    auto computed = Clock::now();
    collective.wait(&request);
    waiting += seconds_since(computed);
    overall += seconds_since(begin);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  double mine[] = {overall, between - testing, starting, testing, waiting}, sums[5] = {};
  MPI_Reduce(mine, sums, 5, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (double& sum : sums) sum *= 1e6 / double(iterations) / ranks;
  return {sums[0], sums[1], sums[2], sums[3], sums[4]};
}

}  // namespace fairlead::tools
