// SPDX-License-Identifier: Apache-2.0

#include "rma/wire.h"

#include <algorithm>

#include "kernels/shape_extent.h"

namespace fairlead::rma {

using kernels::Block;

// Of an irregular layout, only the blocks of this range travel.
Message make_request(const Header& header, const datatype::View& layout, uint64_t at, uint64_t bytes,
                     uint64_t payload) {
  std::vector<Block> blocks;
  if (!layout.regular()) {
    for (uint64_t position = 0; position < bytes;) {
      datatype::View::Run run = layout.run_at(at + position);
      blocks.push_back({run.offset, position});
      position += run.bytes;
    }
  }
  Message message(sizeof(Header) + blocks.size() * sizeof(Block) + payload);
  if (!message.memory.data()) return message;
  Header& made = *new (message.memory.data()) Header(header);
  made.at = layout.regular() ? at : 0;
  made.bytes = bytes;
  made.blocks = static_cast<uint32_t>(blocks.size());
  if (layout.regular()) {
    made.shape = layout.shape();
  } else {
    // Offsets count from the first block.
    made.first += blocks.front().offset;
    for (Block& block : blocks) block.offset -= made.first - header.first;
    std::copy(blocks.begin(), blocks.end(), message.blocks());
  }
  return message;
}

namespace {

// Of an irregular layout: blocks that follow each other in the range.
bool are_sound(const Block* blocks, const Header& header) {
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

// At least: a fetch without an operation brings no operand.
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
  const uint64_t behind = message.size - sizeof(Header), list = header.blocks * sizeof(Block);
  if (header.bytes > INT64_MAX / 2 || list > behind || payload_of(header) > behind - list) return false;
  if (header.blocks > 0) return header.at == 0 && are_sound(message.blocks(), header);
  const auto extent = kernels::extent_of(header.shape);
  return extent && header.at <= extent->bytes && header.bytes <= extent->bytes - header.at &&
         kernels::stays_within(*extent, header.first, header.low, header.high);
}

datatype::View layout_at(char* window, const Message& message) {
  const Header& header = message.header();
  void* address =
      reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(window) + static_cast<uintptr_t>(header.first));
  if (header.blocks == 0) return {address, header.shape};
  std::vector<Block> blocks(message.blocks(), message.blocks() + header.blocks);
  kernels::Shape shape;
  shape.piece = header.bytes;
  return {address, shape, std::make_shared<datatype::BlockList>(std::move(blocks), header.bytes)};
}

}  // namespace fairlead::rma
