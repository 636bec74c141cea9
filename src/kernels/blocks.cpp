// SPDX-License-Identifier: Apache-2.0
//
// The device code of launch_move(). Each thread moves words of 1 to 16 bytes. Neighbouring threads take
// neighbouring words in transfer order, so that a packed side is read or written in whole cache lines.

#define FAIRLEAD_PRIVATE_KERNELS
#include "kernels/block_parameters.h"
#include "kernels/module.h"
#include "kernels/signal.h"

namespace fairlead::kernels {
namespace {

inline constexpr unsigned moved_at_once = 4;

FAIRLEAD_DEVICE_FUNCTION unsigned divide(unsigned number, const Divisor& by) {
  return static_cast<unsigned>((static_cast<unsigned long>(number) * by.factor) >> by.shift);
}

// Returns the block of a list that contains this byte; few blocks are between two buckets.
FAIRLEAD_DEVICE_FUNCTION unsigned long find_block(const MoveBlock* blocks, const unsigned* buckets,
                                                  unsigned shift, unsigned long byte) {
  unsigned long low = buckets[byte >> shift], high = buckets[(byte >> shift) + 1];
  while (low < high) {
    unsigned long middle = (low + high + 1) / 2;
    if (blocks[middle].position <= byte)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

// Returns the offset of word number `word` of the launch.
template <unsigned width>
FAIRLEAD_DEVICE_FUNCTION long offset_of(const MoveSide& side, const void* blocks, const void* buckets,
                                        unsigned word) {
  unsigned long inside = side.start + word;
  long offset = 0;
  if (side.level_count > 0) {
    unsigned number = static_cast<unsigned>(inside), outer = divide(number, side.piece);
    inside = number - outer * side.piece.value;
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < move_levels; ++k) {
      if (k + 1 == side.level_count) {
        offset += static_cast<long>(outer) * side.strides[k];
        break;
      }
      if (k + 1 < move_levels) {
        number = outer + side.starts[k];
        outer = divide(number, side.counts[k]);
        offset += static_cast<long>(number - outer * side.counts[k].value) * side.strides[k];
      }
    }
  }
  if (side.kind == PieceKind::dense) return offset + static_cast<long>(inside) * width;
  if (side.kind == PieceKind::equal_blocks) {
    unsigned number = static_cast<unsigned>(inside), block = divide(number, side.block);
    return offset + static_cast<const long*>(blocks)[block] +
           static_cast<long>(number - block * side.block.value) * width;
  }
  const auto* list = static_cast<const MoveBlock*>(blocks);
  const unsigned long byte = inside * width;
  const MoveBlock& block =
      list[find_block(list, static_cast<const unsigned*>(buckets), side.bucket_shift, byte)];
  return offset + block.offset + static_cast<long>(byte - block.position);
}

template <unsigned width>
FAIRLEAD_DEVICE_FUNCTION void move_words(const MoveBuffers& buffers, const MoveWork& work) {
  using Word = typename kernel::detail::Word<width>::Type;
  char* to = static_cast<char*>(buffers.at[move_to]);
  const char* from = static_cast<const char*>(buffers.at[move_from]);
  const unsigned threads = static_cast<unsigned>(kernel::global_size());
  for (unsigned i = static_cast<unsigned>(kernel::global_index()); i < work.words;
       i += moved_at_once * threads) {
    Word loaded[moved_at_once];
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < moved_at_once; ++k)
      if (i + k * threads < work.words)
        loaded[k] =
            kernel::load<Word>(from + offset_of<width>(work.from, buffers.at[move_from_blocks],
                                                       buffers.at[move_from_buckets], i + k * threads));
    FAIRLEAD_UNROLL
    for (unsigned k = 0; k < moved_at_once; ++k)
      if (i + k * threads < work.words)
        kernel::store(to + offset_of<width>(work.to, buffers.at[move_to_blocks], buffers.at[move_to_buckets],
                                            i + k * threads),
                      loaded[k]);
  }
}

}  // namespace
}  // namespace fairlead::kernels

#define FAIRLEAD_MOVE(width)                                                                         \
  FAIRLEAD_BOUNDED_KERNEL(fairlead::kernels::move_threads_per_block, move_##width,                   \
                          (fairlead::kernels::MoveBuffers buffers, fairlead::kernels::MoveWork work, \
                           fairlead::kernels::Signal signal)) {                                      \
    fairlead::kernel::acquire_launch();                                                              \
    fairlead::kernels::move_words<width>(buffers, work);                                             \
    fairlead::kernels::signal_end(signal);                                                           \
  }
FAIRLEAD_MOVE(1)
FAIRLEAD_MOVE(2)
FAIRLEAD_MOVE(4)
FAIRLEAD_MOVE(8)
FAIRLEAD_MOVE(16)

FAIRLEAD_MODULE_IMAGES(moves)
