// SPDX-License-Identifier: Apache-2.0
//
// Parameters of the kernels in blocks.cpp, as launch_blocks.cpp makes them and device code reads them. All
// counts are in words of the kernel's width.

#pragma once

#include <fairlead/kernel.h>

namespace fairlead::kernels {

inline constexpr unsigned move_threads_per_block = 256;
inline constexpr unsigned move_levels = 6;
// The maximum of one launch. It exceeds every divisor as well, so that sums of two such numbers fit into 31
// bits.
inline constexpr unsigned move_words_at_most = 1u << 30;

// Division of numbers below 2^31 by multiplication.
struct Divisor {
  unsigned value = 1, factor = 0, shift = 0;
};

enum class PieceKind : unsigned { dense, equal_blocks, blocks };

struct MoveSide {
  PieceKind kind = PieceKind::dense;
  unsigned level_count = 0;
  unsigned long start = 0;  // offset of the first word in a piece
  Divisor piece;            // if there are levels
  Divisor counts[move_levels - 1];
  unsigned starts[move_levels - 1] = {};
  long strides[move_levels] = {};
  Divisor block;  // if all blocks have one length
  unsigned bucket_shift = 0;
};

// Addresses that device code dereferences.
enum : unsigned { move_to, move_from, move_to_blocks, move_from_blocks, move_to_buckets, move_from_buckets };
using MoveBuffers = kernel::Pointers<6>;

struct MoveWork {
  unsigned words;
  MoveSide to, from;
};

struct MoveBlock {
  long offset;
  unsigned long position;
};

}  // namespace fairlead::kernels
