// SPDX-License-Identifier: Apache-2.0
//
// Bytes with gaps between them: as an MPI datatype, and as the list of their blocks, by which what arrives is
// checked without the MPI whose datatypes are measured.

#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "bench/buffer.h"

namespace fairlead::tools {

struct Block {
  uint64_t at, bytes;
};

struct Layout {
  std::function<MPI_Datatype()> make;  // new, and not committed
  int count = 1;                       // of the type in a message
  uint64_t bytes = 0;                  // in all blocks
  uint64_t span = 0;                   // to the end of the last block
  uint64_t blocks = 0;
  std::function<Block(uint64_t)> block;  // ascending
};

Layout contiguous_layout(uint64_t bytes);
// From one block to the next it is `stride` blocks.
Layout vector_layout(uint64_t blocks, uint64_t block_bytes, int stride);
// A box in a cube of doubles, the first dimension the slowest.
using Box = std::array<int, 3>;
Layout box_layout(int edge, const Box& size, const Box& start);
// By a name of `layout_names`; of blocks of 8 bytes.
Layout named_layout(const std::string& name, int64_t blocks);

// Of so many bytes each, that hold any of the layout.
uint64_t touched_lines(const Layout& layout, uint64_t line);

class OwnedType {
 public:
  explicit OwnedType(const Layout& layout) : type_(layout.make()) { MPI_Type_commit(&type_); }
  ~OwnedType() { MPI_Type_free(&type_); }
  OwnedType(const OwnedType&) = delete;
  OwnedType& operator=(const OwnedType&) = delete;
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_;
};

// What a buffer must hold, in host memory.
class Image {
 public:
  explicit Image(uint64_t bytes) : bytes_(bytes), data_(Place::plain, bytes) { data_.clear(0, bytes); }
  Image(uint64_t bytes, uint64_t seed) : bytes_(bytes), data_(Place::plain, bytes) {
    data_.write_pattern(0, bytes, seed);
  }
  // The bytes of a layout in another image come to the places of a layout of as many bytes in this one.
  void take(const Layout& to, const Image& other, const Layout& from);
  void write_to(Buffer* buffer) const { buffer->write(0, data_.address(), bytes_); }
  bool same_in(const Buffer& buffer) const { return buffer.holds(0, data_.address(), bytes_); }

 private:
  uint64_t bytes_;
  Buffer data_;
};

}  // namespace fairlead::tools
