// SPDX-License-Identifier: Apache-2.0
//
// The words that fill_pattern writes and check_pattern expects, for host code that checks copies itself.

#pragma once

#include <fairlead/kernel.h>

namespace fairlead::kernels {

// Multiplications by odd constants and shifts: every bit of seed and index reaches every byte, so that
// words of a neighbouring index, of another message or of shifted memory never match by chance.
FAIRLEAD_DEVICE_FUNCTION unsigned long pattern_word(unsigned long seed, unsigned long index) {
  unsigned long word = (seed + 1) * 0x9e3779b97f4a7c15ul + index;
  word = (word ^ (word >> 32)) * 0xd6e8feb86659fd93ul;
  word = (word ^ (word >> 29)) * 0xa3b195354a39b70dul;
  return word ^ (word >> 32);
}

}  // namespace fairlead::kernels
