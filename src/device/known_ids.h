// SPDX-License-Identifier: Apache-2.0
//
// The ids of allocations about which something was found out that does not change. Drivers never use an id
// again. The set forgets an id when another one takes its place, so that it does not grow. Thread-safe.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace fairlead::device {

class KnownIds {
 public:
  bool contains(uint64_t id) const { return id != 0 && place(id).load(std::memory_order_relaxed) == id; }
  void add(uint64_t id) { place(id).store(id, std::memory_order_relaxed); }

 private:
  const std::atomic<uint64_t>& place(uint64_t id) const { return ids_[id % ids_.size()]; }
  std::atomic<uint64_t>& place(uint64_t id) { return ids_[id % ids_.size()]; }
  std::array<std::atomic<uint64_t>, 4096> ids_{};
};

}  // namespace fairlead::device
