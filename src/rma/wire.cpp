// SPDX-License-Identifier: Apache-2.0

#include "rma/wire.h"

#include <algorithm>

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
