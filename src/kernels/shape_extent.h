// SPDX-License-Identifier: Apache-2.0
//
// The range of bytes that a shape touches. The shape may come from another process, so its numbers may be
// anything.

#pragma once

#include <optional>

#include "kernels/blocks.h"

namespace fairlead::kernels {

// The range of bytes, from the address of the first one, and the number of bytes that a message carries.
struct Extent {
  int64_t low, high;
  uint64_t bytes;
};

// None if the numbers are no valid shape or are too large.
inline std::optional<Extent> extent_of(const StridedShape& shape) {
  if (shape.level_count > max_levels || shape.piece > INT64_MAX) return std::nullopt;
  Extent extent{0, static_cast<int64_t>(shape.piece), shape.piece};
  for (const Level* level = shape.levels; level < shape.levels + shape.level_count; ++level) {
    int64_t reach = 0;
    if (level->count == 0 || level->count > INT64_MAX ||
        __builtin_mul_overflow(static_cast<int64_t>(level->count - 1), level->stride, &reach) ||
        __builtin_mul_overflow(extent.bytes, level->count, &extent.bytes) ||
        __builtin_add_overflow(reach < 0 ? extent.low : extent.high, reach,
                               reach < 0 ? &extent.low : &extent.high))
      return std::nullopt;
  }
  return extent;
}

// Does the extent stay within [low, high) if its first byte is at `first`?
inline bool stays_within(const Extent& extent, int64_t first, int64_t low, int64_t high) {
  int64_t begin, end;
  return !__builtin_add_overflow(first, extent.low, &begin) &&
         !__builtin_add_overflow(first, extent.high, &end) && begin >= low && end <= high;
}

}  // namespace fairlead::kernels
