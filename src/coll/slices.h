// SPDX-License-Identifier: Apache-2.0
//
// Divides elements into slices of equal length, which is a multiple of the grain; the last slices are shorter
// or empty.

#pragma once

#include <algorithm>
#include <cstdint>

namespace fairlead::coll {

struct Slices {
  uint64_t elements, parts, grain = 1;

  uint64_t longest() const {
    uint64_t each = (elements + parts - 1) / parts;
    return (each + grain - 1) / grain * grain;
  }
  uint64_t begin(uint64_t part) const { return std::min(part * longest(), elements); }
  uint64_t length(uint64_t part) const { return begin(part + 1) - begin(part); }
};

}  // namespace fairlead::coll
