// SPDX-License-Identifier: Apache-2.0
//
// GPU work for datatypes: one kernel moves a range of a message between two buffers of any layout, so that
// packing, unpacking and copying from one layout to another are the same operation. The bytes of a layout are
// counted in transfer order, in which a message carries them. Thread-safe; returns without waiting for the
// device.

#pragma once

#include "kernels/reduce.h"

namespace fairlead::kernels {

inline constexpr unsigned max_levels = 6;

struct Level {
  uint64_t count = 0;
  int64_t stride = 0;  // bytes from one to the next
  bool operator==(const Level&) const = default;
};

// Loops, innermost first, around pieces of `piece` bytes: blocks without gaps, or lists of such blocks.
// Processes may send a shape to each other.
struct StridedShape {
  uint64_t piece = 0;
  uint32_t level_count = 0;
  Level levels[max_levels];

  bool contiguous() const { return level_count == 0; }
  bool operator==(const StridedShape&) const = default;
};

// A list of blocks in device memory. Offsets count from the first block.
struct BlockTable {
  const void* blocks =
      nullptr;  // offsets if all blocks have `block_bytes` bytes, below 2^28, else Blocks; null: no list
  // If the lengths differ: for each 2^bucket_shift bytes of the list, the number of the block that contains
  // the first of them; at the end, the number of the last block.
  const uint32_t* buckets = nullptr;
  uint64_t block_bytes = 0;
  uint64_t bits = 0;  // bitwise or of all offsets and lengths
  unsigned bucket_shift = 0;
};

struct ListedBlock {
  int64_t offset;
  uint64_t position;  // position of its first byte in the list
};

// A buffer: the address of its first byte in transfer order, and the layout of the others relative to it.
struct LaidOutBuffer {
  void* address = nullptr;
  StridedShape shape;
  BlockTable table;
};

// Can launch_move() run on this device? Loads its code the first time, as copies_available() does.
bool moves_available(int device);

// Moves `bytes` bytes, from `from_at` on, to `to_at`. The device must be able to access both buffers. The
// bytes that are read and written must not overlap, and no byte may be written twice.
device::Error launch_move(int device, device::Stream stream, const LaidOutBuffer& to, uint64_t to_at,
                          const LaidOutBuffer& from, uint64_t from_at, uint64_t bytes, unsigned blocks,
                          const Signal& signal);

}  // namespace fairlead::kernels
