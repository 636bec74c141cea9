// SPDX-License-Identifier: Apache-2.0

#include "p2p/shared_area.h"

#include <cstring>
#include <map>
#include <utility>

namespace fairlead::p2p {

unsigned char* shared_area(node::Node& node, int rank, std::atomic<uint64_t> node::RankBlock::*offset,
                           size_t bytes) {
  using Key = std::pair<const node::Node*, const void*>;
  static auto& opened = *new std::map<Key, node::NodeMemory::Range>;
  std::atomic<uint64_t>& place = node.block(rank).*offset;
  node::NodeMemory::Range& area = opened[{&node, &place}];
  if (area) return area.data();
  if (rank == node.rank()) {
    area = node.memory().create(bytes);
    if (!area.data()) return nullptr;
    std::memset(area.data(), 0, bytes);
    place.store(area.offset(), std::memory_order_release);
  } else if (const uint64_t at = place.load(std::memory_order_acquire)) {
    area = node.memory().open(at, bytes);
  }
  return area.data();
}

}  // namespace fairlead::p2p
