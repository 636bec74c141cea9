// SPDX-License-Identifier: Apache-2.0

#include "device/sim/addresses.h"

#include <iterator>

namespace fairlead::device::sim {

uintptr_t Addresses::carve(std::map<uintptr_t, size_t>::iterator range, uintptr_t start, size_t size) {
  uintptr_t range_start = range->first, range_end = range->first + range->second;
  free_.erase(range);
  if (range_start < start) free_[range_start] = start - range_start;
  if (start + size < range_end) free_[start + size] = range_end - start - size;
  return start;
}

uintptr_t Addresses::take(size_t size) {
  std::vector<uintptr_t>& candidates = last_used_[size];
  while (!candidates.empty()) {
    uintptr_t start = candidates.back();
    candidates.pop_back();
    auto range = free_.upper_bound(start);
    if (range == free_.begin()) continue;
    --range;
    if (range->first + range->second >= start + size) return carve(range, start, size);
  }
  for (auto range = free_.begin(); range != free_.end(); ++range)
    if (range->second >= size) return carve(range, range->first, size);
  return 0;
}

void Addresses::give_back(uintptr_t start, size_t size) {
  last_used_[size].push_back(start);
  auto next = free_.lower_bound(start);
  if (next != free_.end() && start + size == next->first) {
    size += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto previous = std::prev(next);
    if (previous->first + previous->second == start) {
      previous->second += size;
      return;
    }
  }
  free_[start] = size;
}

}  // namespace fairlead::device::sim
