// SPDX-License-Identifier: Apache-2.0

#include "rma/wire.h"

#include <algorithm>

#include "kernels/shape_extent.h"

namespace fairlead::rma {

using kernels::ListedBlock;

// A request carries only those blocks of an irregular layout that the range covers.
Message make_request(const Header& header, const packing::View& layout, uint64_t at, uint64_t bytes,
                     uint64_t payload) {
  std::vector<ListedBlock> blocks;
  if (!layout.regular()) {
    for (uint64_t position = 0; position < bytes;) {
      packing::View::Run run = layout.run_at(at + position);
      blocks.push_back({run.offset, position});
      position += run.bytes;
    }
  }
  Message message(sizeof(Header) + blocks.size() * sizeof(ListedBlock) + payload);
  if (!message.memory.data()) return message;
  Header& made = *new (message.memory.data()) Header(header);
  made.at = layout.regular() ? at : 0;
  made.bytes = bytes;
  made.blocks = static_cast<uint32_t>(blocks.size());
  if (layout.regular()) {
    made.shape = layout.shape();
  } else {
    // ListedBlock offsets are relative to the first block.
    made.first += blocks.front().offset;
    for (ListedBlock& block : blocks) block.offset -= made.first - header.first;
    std::copy(blocks.begin(), blocks.end(), message.blocks());
  }
  return message;
}

namespace {

// Checks the blocks of an irregular layout: they are consecutive in the range and stay within [low, high).
bool are_sound(const ListedBlock* blocks, const Header& header) {
  for (uint32_t i = 0; i < header.blocks; ++i) {
    const uint64_t end = i + 1 < header.blocks ? blocks[i + 1].position : header.bytes;
    int64_t first;
    if (blocks[i].position >= end || end > header.bytes || (i == 0 && blocks[i].position != 0) ||
        __builtin_add_overflow(header.first, blocks[i].offset, &first))
      return false;
    const kernels::Extent extent{0, static_cast<int64_t>(end - blocks[i].position), 0};
    if (!kernels::stays_within(extent, first, header.low, header.high)) return false;
  }
  return true;
}

// The minimum payload: a fetch with MPI_NO_OP carries no operand.
uint64_t payload_of(const Header& header) {
  switch (header.kind) {
    case Request::put:
    case Request::accumulate:
      return header.bytes;
    case Request::compare_and_swap:
      return 2 * header.bytes;
    default:
      return 0;
  }
}

}  // namespace

bool is_sound(const Message& message) {
  if (!message.memory.data() || message.size < sizeof(Header)) return false;
  const Header& header = message.header();
  if (header.kind > Request::answer) return false;
  if (header.kind >= Request::lock) return true;
  const uint64_t behind = message.size - sizeof(Header), list = header.blocks * sizeof(ListedBlock);
  if (header.bytes > INT64_MAX / 2 || list > behind || payload_of(header) > behind - list) return false;
  if (header.blocks > 0) return header.at == 0 && are_sound(message.blocks(), header);
  const auto extent = kernels::extent_of(header.shape);
  return extent && header.at <= extent->bytes && header.bytes <= extent->bytes - header.at &&
         kernels::stays_within(*extent, header.first, header.low, header.high);
}

packing::View layout_at(char* window, const Message& message) {
  const Header& header = message.header();
  void* address =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(window) + static_cast<uintptr_t>(header.first));
  if (header.blocks == 0) return {address, header.shape};
  std::vector<ListedBlock> blocks(message.blocks(), message.blocks() + header.blocks);
  kernels::StridedShape shape;
  shape.piece = header.bytes;
  return {address, shape, std::make_shared<packing::BlockList>(std::move(blocks), header.bytes)};
}

}  // namespace fairlead::rma
