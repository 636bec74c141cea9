// SPDX-License-Identifier: Apache-2.0
//
// What the GPU does for datatypes: one kernel moves a range of a message between two buffers of any layout,
// so that packing, unpacking and the copy from one layout into another are the same. The bytes of a layout
// are counted in the order in which they travel. Thread-safe; returns without waiting for the device.

#pragma once

#include "kernels/reduce.h"

namespace fairlead::kernels {

inline constexpr unsigned max_levels = 6;

struct Level {
  uint64_t count = 0;
  int64_t stride = 0;  // bytes from one to the next
  bool operator==(const Level&) const = default;
};

// Loops, the innermost first, around pieces of so many bytes: blocks without gaps, or lists of such blocks.
// May travel between processes.
struct Shape {
  uint64_t piece = 0;
  uint32_t level_count = 0;
  Level levels[max_levels];

  bool contiguous() const { return level_count == 0; }
  bool operator==(const Shape&) const = default;
};

// A list of blocks in device memory. Offsets count from the first block.
struct BlockTable {
  const void* blocks =
      nullptr;  // an offset each where all have `block_bytes`, below 2^28, else Block; null: no list
  // Where the lengths differ: for each 2^bucket_shift bytes of the list, the block that holds the first of
  // them; and behind these the last block.
  const uint32_t* buckets = nullptr;
  uint64_t block_bytes = 0;
  uint64_t bits = 0;  // of all offsets and lengths, by `or`
  unsigned bucket_shift = 0;
};

struct Block {
  int64_t offset;
  uint64_t position;  // in the list, of its first byte
};

// A buffer: the address of its first byte, in the order of travel, and where the others lie from there.
struct Side {
  void* address = nullptr;
  Shape shape;
  BlockTable table;
};

// Can launch_move() run on this device? Loads its code the first time, as launch_copies() does.
bool moves_available(int device);

// Moves `bytes` bytes, from `from_at` on, to `to_at`. The device can reach both buffers. What is written is
// not read, and nothing is written twice.
device::Error launch_move(int device, device::Stream stream, const Side& to, uint64_t to_at, const Side& from,
                          uint64_t from_at, uint64_t bytes, unsigned blocks, const Signal& signal);

}  // namespace fairlead::kernels
