// SPDX-License-Identifier: Apache-2.0
//
// The loop of tests of random plans: as many rounds as --rounds says, or for a while.

#pragma once

#include <cstdio>

#include "harness/harness.h"

namespace ranks {

// Calls round(seed) with another seed each time, `fewest` times at least, until it fails on some rank; all
// ranks stop together. Prints the first seed, and how to repeat a round that failed.
template <class Round>
void repeat(const char* theme, double seconds, const Round& round, long fewest = 1) {
  if (rank == 0) std::printf("    %s: seed %llu\n", theme, static_cast<unsigned long long>(options.seed));
  std::fflush(stdout);
  MPI_Comm agreement;  // the rounds may use MPI_COMM_WORLD
  MUST(MPI_Comm_dup(MPI_COMM_WORLD, &agreement));
  const double begin = MPI_Wtime();
  long done = 0;
  for (int go_on = 1; go_on;) {
    rearm_watchdog();
    const uint64_t seed = options.seed + static_cast<uint64_t>(done);
    round(seed);
    ++done;
    if (failures() > 0)
      std::fprintf(stderr, "%s failed; repeat the round with: %s --seed %llu --rounds 1 on %d ranks\n", theme,
                   theme, static_cast<unsigned long long>(seed), size);
    const bool in_time = done < fewest || MPI_Wtime() - begin < seconds;
    go_on = failures() == 0 && (options.rounds > 0 ? done < options.rounds : in_time);
    MUST(MPI_Allreduce(MPI_IN_PLACE, &go_on, 1, MPI_INT, MPI_MIN, agreement));
  }
  if (rank == 0) std::printf("    %s: %ld rounds\n", theme, done);
  MUST(MPI_Comm_free(&agreement));
}

}  // namespace ranks
