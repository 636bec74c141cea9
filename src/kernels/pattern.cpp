// SPDX-License-Identifier: Apache-2.0
//
// A pattern of 64-bit words that follows from a seed and each word's index, to fill buffers with and to
// check them by on the device itself. Used by tests and benchmarks.

#include "pattern.h"

#include <fairlead/kernel.h>

using fairlead::kernel::global_index;
using fairlead::kernel::global_size;

FAIRLEAD_KERNEL(fill_pattern, (unsigned long* words, unsigned long count, unsigned long seed)) {
  for (unsigned long i = global_index(); i < count; i += global_size())
    words[i] = fairlead::kernels::pattern_word(seed, i);
}

// Adds the number of words that differ from the pattern to *mismatches.
FAIRLEAD_KERNEL(check_pattern, (const unsigned long* words, unsigned long count, unsigned long seed,
                                unsigned long* mismatches)) {
  unsigned long wrong = 0;
  for (unsigned long i = global_index(); i < count; i += global_size())
    wrong += words[i] != fairlead::kernels::pattern_word(seed, i);
  if (wrong) fairlead::kernel::atomic_add(mismatches, wrong);
}
