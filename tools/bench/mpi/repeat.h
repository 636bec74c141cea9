// SPDX-License-Identifier: Apache-2.0
//
// How ranks that do steps together repeat them: equally often in all, as often as the clock of one allows.

#pragma once

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "bench/noise.h"
#include "bench/timing.h"

namespace fairlead::tools {

// Warms up, and finds how many steps follow. `timed(steps)` does them and gives the seconds of each; that of
// the first of `members` counts. Collective.
template <class Timed>
int64_t warm_up(const BenchArguments& arguments, MPI_Comm members, uint64_t bytes, UsualIterations usual,
                const Timed& timed) {
  Repetitions wanted = repetitions(arguments, bytes, usual);
  const int64_t trials = std::min(trial_steps, wanted.warmup);
  wanted = within_budget(arguments, wanted, median(timed(trials)), is_simulated(arguments));
  MPI_Bcast(&wanted.timed, 1, MPI_INT64_T, 0, members);
  MPI_Bcast(&wanted.warmup, 1, MPI_INT64_T, 0, members);
  timed(wanted.warmup - trials);
  return wanted.timed;
}

// The mean of each element over so many ranks; the other members bring zeros. In the first of them.
inline std::vector<double> means_over(int ranks, const std::vector<double>& seconds, MPI_Comm members) {
  std::vector<double> means(seconds.size());
  MPI_Reduce(seconds.data(), means.data(), static_cast<int>(means.size()), MPI_DOUBLE, MPI_SUM, 0, members);
  for (double& each : means) each /= ranks;
  return means;
}

}  // namespace fairlead::tools
