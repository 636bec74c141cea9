// SPDX-License-Identifier: Apache-2.0

#pragma once

namespace ranks {

// What a kernel writes to byte `i` of a partition.
constexpr unsigned char partition_byte(unsigned seed, int partition, unsigned long i) {
  const unsigned long mixed =
      (i + 1) * 0x9e3779b97f4a7c15 + seed * 0xd6e8feb86659fd93 + static_cast<unsigned long>(partition) * 77;
  return static_cast<unsigned char>(mixed >> 56);
}

}  // namespace ranks
