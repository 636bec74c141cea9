// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/layouts/layout.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace fairlead::tools {
namespace {

constexpr uint64_t word = sizeof(double);

// A field of two in a record: an int, a gap, and an int again.
Layout struct_layout(int64_t records) {
  constexpr MPI_Aint second = 8, extent = 16;
  const auto number = static_cast<uint64_t>(records);
  return {.make =
              [] {
                int lengths[] = {1, 1};
                MPI_Aint places[] = {0, second};
                MPI_Datatype fields[] = {MPI_INT, MPI_INT}, record, resized;
                MPI_Type_create_struct(2, lengths, places, fields, &record);
                MPI_Type_create_resized(record, 0, extent, &resized);
                MPI_Type_free(&record);
                return resized;
              },
          .count = static_cast<int>(records),
          .bytes = number * word,
          .span = number * extent - (extent - second - sizeof(int)),
          .blocks = 2 * number,
          .block =
              [](uint64_t i) {
                return Block{i * second, sizeof(int)};
              }};
}

// One to three words are between neighbours, always the same ones.
Layout indexed_layout(int64_t blocks) {
  auto places = std::make_shared<std::vector<int>>();
  std::mt19937 random(8);
  int place = 0;
  for (int64_t i = 0; i < blocks; ++i) {
    places->push_back(place);
    place += 2 + static_cast<int>(random() % 3);
  }
  const auto number = static_cast<uint64_t>(blocks);
  return {.make =
              [places] {
                std::vector<int> lengths(places->size(), 1);
                MPI_Datatype type;
                MPI_Type_indexed(static_cast<int>(places->size()), lengths.data(), places->data(), MPI_DOUBLE,
                                 &type);
                return type;
              },
          .bytes = number * word,
          .span = (static_cast<uint64_t>(places->back()) + 1) * word,
          .blocks = number,
          .block =
              [places](uint64_t i) {
                return Block{static_cast<uint64_t>((*places)[i]) * word, word};
              }};
}

// A cube inside one that has a layer more on each side.
Layout inner_cube_layout(int64_t most) {
  int edge = 1;
  while (int64_t{edge + 1} * (edge + 1) * (edge + 1) <= most) ++edge;
  return box_layout(edge + 2, {edge, edge, edge}, {1, 1, 1});
}

}  // namespace

Layout contiguous_layout(uint64_t bytes) {
  const uint64_t element = bytes % word ? 1 : word;
  return {.make =
              [=] {
                MPI_Datatype type;
                MPI_Type_contiguous(static_cast<int>(bytes / element), element == 1 ? MPI_BYTE : MPI_DOUBLE,
                                    &type);
                return type;
              },
          .bytes = bytes,
          .span = bytes,
          .blocks = 1,
          .block =
              [=](uint64_t) {
                return Block{0, bytes};
              }};
}

Layout vector_layout(uint64_t blocks, uint64_t block_bytes, int stride) {
  const uint64_t element = block_bytes % word ? 1 : word, step = block_bytes * static_cast<uint64_t>(stride);
  return {.make =
              [=] {
                MPI_Datatype type;
                MPI_Type_vector(static_cast<int>(blocks), static_cast<int>(block_bytes / element),
                                static_cast<int>(step / element), element == 1 ? MPI_BYTE : MPI_DOUBLE,
                                &type);
                return type;
              },
          .bytes = blocks * block_bytes,
          .span = (blocks - 1) * step + block_bytes,
          .blocks = blocks,
          .block =
              [=](uint64_t i) {
                return Block{i * step, block_bytes};
              }};
}

Layout box_layout(int edge, const Box& size, const Box& start) {
  auto place = [=](uint64_t slow, uint64_t middle, uint64_t fast) {
    const auto n = static_cast<uint64_t>(edge);
    return ((slow * n + middle) * n + fast) * word;
  };
  auto at = [=](uint64_t slow, uint64_t middle) {
    return place(slow + static_cast<uint64_t>(start[0]), middle + static_cast<uint64_t>(start[1]),
                 static_cast<uint64_t>(start[2]));
  };
  const bool whole_rows = size[2] == edge;  // one follows the other
  const auto slow = static_cast<uint64_t>(size[0]), middle = static_cast<uint64_t>(whole_rows ? 1 : size[1]);
  const uint64_t row = static_cast<uint64_t>(whole_rows ? size[1] * size[2] : size[2]) * word;
  return {.make =
              [=] {
                int edges[] = {edge, edge, edge};
                MPI_Datatype type;
                MPI_Type_create_subarray(3, edges, size.data(), start.data(), MPI_ORDER_C, MPI_DOUBLE, &type);
                return type;
              },
          .bytes = slow * middle * row,
          .span = at(slow - 1, middle - 1) + row,
          .blocks = slow * middle,
          .block =
              [=](uint64_t i) {
                return Block{at(i / middle, i % middle), row};
              }};
}

Layout named_layout(const std::string& name, int64_t blocks) {
  const auto number = static_cast<uint64_t>(blocks);
  if (name == "contiguous") return contiguous_layout(number * word);
  if (name == "vector") return vector_layout(number, word, 2);
  if (name == "indexed") return indexed_layout(blocks);
  if (name == "struct") return struct_layout(blocks);
  return inner_cube_layout(blocks);
}

uint64_t touched_lines(const Layout& layout, uint64_t line) {
  uint64_t lines = 0, next = 0;  // the first line that is not counted yet
  for (uint64_t i = 0; i < layout.blocks; ++i) {
    const Block block = layout.block(i);
    const uint64_t first = std::max(block.at / line, next), end = (block.at + block.bytes - 1) / line + 1;
    lines += end > first ? end - first : 0;
    next = std::max(next, end);
  }
  return lines;
}

void Image::take(const Layout& to, const Image& other, const Layout& from) {
  uint64_t next_to = 0, next_from = 0;
  Block into{}, out_of{};
  for (uint64_t done = 0; done < to.bytes;) {
    if (into.bytes == 0) into = to.block(next_to++);
    if (out_of.bytes == 0) out_of = from.block(next_from++);
    const uint64_t length = std::min(into.bytes, out_of.bytes);
    std::memcpy(static_cast<char*>(data_.address()) + into.at,
                static_cast<const char*>(other.data_.address()) + out_of.at, length);
    for (Block* block : {&into, &out_of}) block->at += length, block->bytes -= length;
    done += length;
  }
}

}  // namespace fairlead::tools
