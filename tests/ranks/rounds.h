// SPDX-License-Identifier: Apache-2.0
//
// The loop of tests of random plans: as many rounds as --rounds says, or for a while.

#pragma once

#include <chrono>

#include "harness.h"

namespace ranks {

// Calls round(seed) with another seed each time; all ranks stop together. What `theme` to repeat a round that
// failed with, and its seed, are printed.
template <class Round>
void repeat(const char* theme, double seconds, const Round& round) {
  const auto begin = std::chrono::steady_clock::now();
  const std::chrono::duration<double> time(seconds);
  for (long i = 0; options.rounds ? i < options.rounds : true; ++i) {
    int go_on = options.rounds || std::chrono::steady_clock::now() - begin < time;
    MUST(MPI_Bcast(&go_on, 1, MPI_INT, 0, MPI_COMM_WORLD));
    if (!go_on) return;
    rearm_watchdog();
    const uint64_t seed = options.seed + static_cast<uint64_t>(i);
    const int before = failures();
    round(seed);
    if (failures() > before)
      std::printf("    repeat with: %s --seed %llu --rounds 1\n", theme,
                  static_cast<unsigned long long>(seed));
  }
}

}  // namespace ranks
