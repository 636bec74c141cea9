// SPDX-License-Identifier: Apache-2.0
//
// The host side of blocks.h: chooses the width of the words and where in the loops of each side a launch
// begins, and launches the kernel: once as a rule, more often if the numbers of one launch would not fit into
// 31 bits.

#include <algorithm>
#include <atomic>
#include <bit>
#include <string>

#include "kernels/block_parameters.h"
#include "kernels/blocks.h"
#include "kernels/kernel_table.h"

namespace fairlead::kernels {

ModuleImages moves();

namespace {

using device::Error;
using device::Kernel;
using device::Stream;

static_assert(move_levels == max_levels && sizeof(MoveBlock) == sizeof(ListedBlock));
static_assert(sizeof(MoveBuffers) + sizeof(MoveWork) + sizeof(Signal) <= 4096, "CUDA's limit");

constexpr unsigned widths = 5;

Error find(int device, unsigned width, Kernel* kernel) {
  return find_kernel(
      device, moves, static_cast<int>(width), [](int which) { return "move_" + std::to_string(which); },
      kernel);
}

// With m = floor(2^(31 + s) / d) + 1 and 2^s >= d, n m / 2^(31 + s) is n / d rounded down for every n < 2^31.
Divisor divisor(uint64_t value) {
  unsigned s = static_cast<unsigned>(std::bit_width(value - 1));
  return {static_cast<unsigned>(value), static_cast<unsigned>((uint64_t{1} << (31 + s)) / value + 1), 31 + s};
}

// The bitwise or of all terms that the addresses of a side are sums of.
uint64_t bits_of(const LaidOutBuffer& side) {
  uint64_t bits = reinterpret_cast<uintptr_t>(side.address) | side.table.bits;
  if (!side.shape.contiguous()) bits |= side.shape.piece;
  for (unsigned k = 0; k < side.shape.level_count; ++k)
    bits |= static_cast<uint64_t>(side.shape.levels[k].stride);
  return bits;
}

unsigned width_for(uint64_t bits) {
  constexpr unsigned widest = 1u << (widths - 1);
  return 1u << std::countr_zero(bits | widest);
}

// Describes one side of one launch. Reduces `*bytes`, the length of the launch, to what one start can
// describe.
void describe_side(const LaidOutBuffer& side, uint64_t at, unsigned width, uint64_t* bytes, MoveSide* it,
                   void** address, void** table) {
  const StridedShape& shape = side.shape;
  uint64_t limit = uint64_t{move_words_at_most} * width;
  // Loops outside the first one whose count is too large for a Divisor keep one index in the whole launch.
  uint64_t period = shape.piece;
  unsigned levels = 0;
  if (shape.level_count > 0 && period < limit)
    for (levels = 1; levels < shape.level_count; ++levels) {
      if (shape.levels[levels - 1].count >= move_words_at_most) break;
      period *= shape.levels[levels - 1].count;
    }
  auto next = levels;  // the innermost of these loops
  if (next < shape.level_count) {
    if (next > 0) period *= shape.levels[next - 1].count;
    *bytes = std::min(*bytes, period - at % period);
  }
  auto base = reinterpret_cast<uintptr_t>(side.address);
  uint64_t inside = at, number = 0;
  if (shape.level_count > 0) {
    inside = at % shape.piece;
    number = at / shape.piece;
    for (unsigned k = 0; k < shape.level_count; ++k) {
      bool last = k + 1 == shape.level_count;
      uint64_t index = last ? number : number % shape.levels[k].count;
      if (!last) number /= shape.levels[k].count;
      if (k + 1 < levels) {
        it->starts[k] = static_cast<unsigned>(index);
        it->counts[k] = divisor(shape.levels[k].count);
      } else {
        base += index * static_cast<uint64_t>(shape.levels[k].stride);
      }
      if (k < levels) it->strides[k] = shape.levels[k].stride;
    }
  }
  it->level_count = levels;
  if (levels) it->piece = divisor(shape.piece / width);
  it->start = inside / width;
  it->bucket_shift = side.table.bucket_shift;
  if (side.table.blocks) it->kind = side.table.block_bytes ? PieceKind::equal_blocks : PieceKind::blocks;
  auto blocks = static_cast<const int64_t*>(side.table.blocks);
  if (it->kind == PieceKind::equal_blocks) {
    it->block = divisor(side.table.block_bytes / width);
    if (!levels) {
      blocks += inside / side.table.block_bytes;
      it->start = inside % side.table.block_bytes / width;
    }
  }
  *table = const_cast<int64_t*>(blocks);
  *address = reinterpret_cast<void*>(base);
}

}  // namespace

// Looks for the kernels of all widths, because a move may use two of them.
bool moves_available(int device) {
  static std::atomic<uint64_t> found_on{0};
  uint64_t bit = device >= 0 && device < 64 ? uint64_t{1} << device : 0;
  if (found_on.load(std::memory_order_relaxed) & bit) return true;
  for (unsigned k = 0; k < widths; ++k) {
    Kernel kernel;
    if (find(device, 1u << k, &kernel) != Error::none) return false;
  }
  found_on.fetch_or(bit, std::memory_order_relaxed);
  return true;
}

Error launch_move(int device, Stream stream, const LaidOutBuffer& to, uint64_t to_at,
                  const LaidOutBuffer& from, uint64_t from_at, uint64_t bytes, unsigned blocks,
                  const Signal& signal) {
  if (blocks == 0) return Error::invalid_value;
  uint64_t bits = bits_of(to) | bits_of(from);
  do {
    // An end that is shorter than a word gets a launch of its own.
    unsigned width = width_for(bits | to_at | from_at);
    while (width > 1 && bytes > 0 && bytes < width) width /= 2;
    Kernel kernel;
    if (Error error = find(device, width, &kernel); error != Error::none) return error;
    MoveWork work{};
    MoveBuffers buffers{};
    uint64_t moved = std::min(bytes, uint64_t{move_words_at_most} * width) / width * width;
    describe_side(to, to_at, width, &moved, &work.to, &buffers.at[move_to], &buffers.at[move_to_blocks]);
    describe_side(from, from_at, width, &moved, &work.from, &buffers.at[move_from],
                  &buffers.at[move_from_blocks]);
    buffers.at[move_to_buckets] = const_cast<uint32_t*>(to.table.buckets);
    buffers.at[move_from_buckets] = const_cast<uint32_t*>(from.table.buckets);
    work.words = static_cast<unsigned>(moved / width);
    bytes -= moved;
    Signal last = bytes ? Signal{} : signal;
    uint64_t useful = (uint64_t{work.words} + move_threads_per_block - 1) / move_threads_per_block;
    auto grid = static_cast<unsigned>(std::clamp<uint64_t>(useful, 1, blocks));
    void* arguments[] = {&buffers, &work, &last};
    if (Error error = device::runtime()->launch(kernel, grid, move_threads_per_block, arguments, stream);
        error != Error::none)
      return error;
    to_at += moved;
    from_at += moved;
  } while (bytes > 0);
  return Error::none;
}

}  // namespace fairlead::kernels
