// SPDX-License-Identifier: Apache-2.0
//
// What a shape that came from another process touches. Its numbers may be anything.

#pragma once

#include <optional>

#include "kernels/blocks.h"

namespace fairlead::kernels {

// Bytes from the address of the first one; and how many of them travel.
struct Extent {
  int64_t low, high;
  uint64_t bytes;
};

// None where the numbers are no shape, or too large.
inline std::optional<Extent> extent_of(const Shape& shape) {
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

// Does it stay within [low, high) when its first byte lies at `first`?
inline bool stays_within(const Extent& extent, int64_t first, int64_t low, int64_t high) {
  int64_t begin, end;
  return !__builtin_add_overflow(first, extent.low, &begin) &&
         !__builtin_add_overflow(first, extent.high, &end) && begin >= low && end <= high;
}

}  // namespace fairlead::kernels
