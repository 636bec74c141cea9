// SPDX-License-Identifier: Apache-2.0
//
// What a collective's buffers hold: how many bytes in each rank, the data it sends, and what it must receive.
// Vectors that are reduced hold small whole numbers, so that any order of additions gives the same bytes.

#pragma once

#include <cstdint>
#include <optional>

#include "bench/buffer.h"
#include "bench/options/arguments.h"

namespace fairlead::tools {

class CollectiveData {
 public:
  CollectiveData(const BenchArguments& arguments, int rank, int ranks);
  // Of another collective than the arguments'.
  CollectiveData(const CollectiveKind& kind, const BenchArguments& arguments, int rank, int ranks);

  // In this rank, for a call of that size with that root; -1: with any root.
  uint64_t sent_bytes(uint64_t size, int root) const;
  uint64_t received_bytes(uint64_t size, int root) const;
  // Of both buffers in the rank that has most.
  uint64_t most_bytes(uint64_t size, int root) const;

  // New data for every iteration.
  void fill(Buffer& outgoing, uint64_t size, int64_t iteration, int root) const;
  // The first byte of this rank's buffer that is not what the call should have left there.
  std::optional<uint64_t> first_wrong(const Buffer& incoming, uint64_t size, int64_t iteration,
                                      int root) const;

 private:
  uint64_t extent(Extent extent, uint64_t size) const;
  // Whose a block of a buffer is, or for whom.
  int peer(Extent extent, uint64_t block) const;
  // The element of the whole vector that this rank's part begins with.
  uint64_t first_element(uint64_t size) const;
  uint64_t seed(uint64_t size, int64_t iteration, int sender, int receiver) const;

  const CollectiveKind& kind_;
  ElementType element_;
  Reduction reduction_;
  int rank_, ranks_;
};

}  // namespace fairlead::tools
