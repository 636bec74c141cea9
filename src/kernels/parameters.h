// SPDX-License-Identifier: Apache-2.0
//
// Parameters of the kernels, as launch.cpp makes them and device code reads them.

#pragma once

#include <fairlead/kernel.h>

#include "kernels/end_signal.h"

namespace fairlead::kernels {

inline constexpr unsigned threads_per_block = 512;
inline constexpr unsigned reduce_buffers = 32, copy_items_at_most = 64;
inline constexpr unsigned vector_bytes = 16;
inline constexpr unsigned swapped_bytes_at_most = 16;

using Buffers = kernel::Pointers<reduce_buffers>;
using CopyBuffers = kernel::Pointers<copy_items_at_most>;
// The buffers of a compare-and-swap of one element.
enum : unsigned { swap_target, swap_compare, swap_wanted, swap_old, swap_buffers };
using SwapBuffers = kernel::Pointers<swap_buffers>;

// The elements are divided into the head, then vectors of 16 bytes that are aligned in all buffers, then the
// rest.
struct ReduceWork {
  unsigned long count, head, vectors;
  unsigned sources, targets;
  bool aligned;    // every element of every buffer is aligned as its type needs
  bool keeps_old;  // the buffer after the targets gets the first source's old content; all elements are head
};

// The 32-bit words of a kernel that is part of an exchange; otherwise the first is null.
enum : unsigned { exchange_turn, exchange_next_turn, exchange_first_word };
using ExchangeWords = kernel::Pointers<exchange_first_word + reduce_buffers>;
// Each block adds `share` to each of `words` words, the last one `rest` as well. Where the turn is odd, the
// kernel writes (one that gives) or reads `half` bytes behind the addresses.
struct ExchangeWork {
  unsigned long half;
  unsigned words, share, rest;
  bool gives;
};

// Groups ends[i - 1] to ends[i] of `threads` threads each copy item i. Each copies `share` bytes of it, the
// last one the rest.
struct CopyWork {
  unsigned long bytes[copy_items_at_most];
  unsigned long share;
  unsigned ends[copy_items_at_most];
  unsigned groups, threads;
};

}  // namespace fairlead::kernels
