// SPDX-License-Identifier: Apache-2.0
//
// Hands out address ranges of one reserved region. Like a GPU driver, and on purpose, it gives the next
// allocation of a size the address that one of this size was freed from last, so that whoever caches by
// address alone is caught. Not thread-safe: its owner locks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace fairlead::device::sim {

class Addresses {
 public:
  Addresses(uintptr_t start, size_t size) { free_[start] = size; }

  uintptr_t take(size_t size);  // 0: no range is long enough
  void give_back(uintptr_t start, size_t size);

 private:
  uintptr_t carve(std::map<uintptr_t, size_t>::iterator range, uintptr_t start, size_t size);

  std::map<uintptr_t, size_t> free_;                    // start -> size; neighbours are merged
  std::map<size_t, std::vector<uintptr_t>> last_used_;  // size -> addresses, which may be taken again by now
};

}  // namespace fairlead::device::sim
