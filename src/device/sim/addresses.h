// SPDX-License-Identifier: Apache-2.0
//
// Allocates address ranges within one reserved region. Like a GPU driver, and deliberately, it gives the next
// allocation of a size the most recently freed address of that size, so that tests catch code that caches by
// address alone. Not thread-safe: the owner locks.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace fairlead::device::sim {

class Addresses {
 public:
  Addresses(uintptr_t start, size_t size) { free_[start] = size; }

  uintptr_t take(size_t size);  // 0: no free range is long enough
  void give_back(uintptr_t start, size_t size);

 private:
  uintptr_t carve(std::map<uintptr_t, size_t>::iterator range, uintptr_t start, size_t size);

  std::map<uintptr_t, size_t> free_;                    // start -> size; neighbours are merged
  std::map<size_t, std::vector<uintptr_t>> last_used_;  // size -> addresses, possibly in use again
};

}  // namespace fairlead::device::sim
