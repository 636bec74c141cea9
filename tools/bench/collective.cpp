// SPDX-License-Identifier: Apache-2.0

#include "bench/collective.h"

#include <fmt/format.h>

#include "common/failure.h"

namespace fairlead::tools {

const ElementType& element_type(const std::string& name) {
  for (const ElementType& type : element_types)
    if (name == type.name) return type;
  throw usage(fmt::format("no element type '{}'", name));
}

Reduction reduction_named(const std::string& name) {
  return name == "sum"    ? Reduction::sum
         : name == "prod" ? Reduction::prod
         : name == "min"  ? Reduction::min
                          : Reduction::max;
}

int blocks_of(const CollectiveKind& kind, int ranks) {
  const bool each = kind.sent == Extent::block_each || kind.received == Extent::block_each;
  return each ? ranks : among_neighbors(kind) ? 2 : 1;
}

uint64_t share_of(uint64_t elements, int rank, int ranks) {
  auto n = static_cast<uint64_t>(ranks);
  return elements / n + (static_cast<uint64_t>(rank) < elements % n ? 1 : 0);
}

double algorithm_bandwidth(const CollectiveKind& kind, uint64_t bytes, int ranks, double seconds) {
  if (seconds <= 0) return 0;
  return double(bytes) * blocks_of(kind, ranks) / seconds / 1e9;
}

double bus_bandwidth(const CollectiveKind& kind, uint64_t bytes, int ranks, double seconds) {
  double factor = kind.steps > 0 ? kind.steps * (ranks - 1) / ranks : 1;
  return factor * algorithm_bandwidth(kind, bytes, ranks, seconds);
}

std::string explain(const CollectiveKind& kind, bool bandwidths) {
  if (kind.id == Collective::barrier) return "";
  std::string text = fmt::format(" Size is the bytes of {}.", kind.meaning);
  if (!bandwidths) return text;
  constexpr int many = 1000;
  const int blocks = blocks_of(kind, many);
  text += fmt::format(" algbw is {}size / time, busbw is ", blocks == many ? "n * "
                                                            : blocks > 1   ? "2 * "
                                                                           : "");
  if (kind.steps == 0) return text + "the same.";
  return text + fmt::format("algbw * {}(n-1)/n, for n ranks.", kind.steps > 1 ? "2" : "");
}

}  // namespace fairlead::tools
