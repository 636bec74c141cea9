// SPDX-License-Identifier: Apache-2.0
//
// Parameters of the kernels, as launch.cpp makes them and device code reads them.

#pragma once

#include <fairlead/kernel.h>

namespace fairlead::kernels {

inline constexpr unsigned threads_per_block = 512;
inline constexpr unsigned reduce_buffers = 32, copy_items_at_most = 64;
inline constexpr unsigned vector_bytes = 16;

using Buffers = kernel::Pointers<reduce_buffers>;
using CopyBuffers = kernel::Pointers<copy_items_at_most>;

// Elements are head, then vectors of 16 bytes that are aligned in all buffers, then the rest.
struct ReduceWork {
  unsigned long count, head, vectors;
  unsigned sources, targets;
  bool aligned;  // each element of each buffer, to what its type needs
};

// The items follow each other: item i is the bytes from ends[i - 1] to ends[i] of the whole, of which each
// block copies `share` bytes.
struct CopyWork {
  unsigned long ends[copy_items_at_most];
  unsigned long share;
  unsigned count;
};

}  // namespace fairlead::kernels
