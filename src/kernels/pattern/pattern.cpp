// SPDX-License-Identifier: Apache-2.0
//
// Fills buffers with a pattern of 64-bit words, and checks them against it on the device itself. Each word
// depends on a seed and on its index. Used by tests and benchmarks.

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
