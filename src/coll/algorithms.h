// SPDX-License-Identifier: Apache-2.0
//
// The ways in which a collective runs on the GPU, where there are several. All members choose alike: by what
// all of them know, the message's length and their number, or by FAIRLEAD_COLL, which must be the same on all
// ranks.

#pragma once

#include <cstdint>
#include <string>

#include "base/options.h"

namespace fairlead::coll {

struct Algorithm {
  const char* collective;
  const char* name;
  // It is taken from so many bytes and members on; of several, the last.
  uint64_t bytes;
  int members;
};

// Limits measured on H200s (docs/benchmarks).
inline constexpr Algorithm algorithms[] = {
    // Each fetches all of it from the root.
    {"bcast", "direct", 0, 1},
    // Each fetches another part of every chunk from the root, and the rest from those that have it.
    {"bcast", "relayed", uint64_t{16} << 20, 3},
};

// Does FAIRLEAD_COLL say that no collective runs on the GPU?
inline bool all_staged() {
  return options().coll.contains("staged");
}

inline bool takes(const char* collective, const char* name, uint64_t bytes, int members) {
  const Algorithm* best = nullptr;
  for (const Algorithm& row : algorithms) {
    if (std::string(row.collective) != collective) continue;
    if (options().coll.contains(std::string(collective) + ":" + row.name)) {
      best = &row;
      break;
    }
    if (bytes >= row.bytes && members >= row.members) best = &row;
  }
  return best && best->name == std::string(name);
}

}  // namespace fairlead::coll
