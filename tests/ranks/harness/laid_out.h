// SPDX-License-Identifier: Apache-2.0
//
// Buffers and MPI datatypes of the layouts that random_layout.h describes.

#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harness/harness.h"
#include "random_layout.h"

namespace ranks {

using random_layout::Node;

// An MPI datatype, committed, freed with it.
class Type {
 public:
  explicit Type(MPI_Datatype type) : type_(type) { MUST(MPI_Type_commit(&type_)); }
  explicit Type(const Node& node) : Type(make(node)) {}
  Type(Type&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}
  ~Type() { free(); }
  operator MPI_Datatype() const { return type_; }
  void free() {
    if (type_ != MPI_DATATYPE_NULL) MUST(MPI_Type_free(&type_));
  }

 private:
  // All basic ones are made of MPI_BYTE, so that any two types of one size match.
  static MPI_Datatype make(const Node& node) {
    MPI_Datatype bare, made;
    if (node.kind == Node::Kind::basic) {
      MUST(MPI_Type_contiguous(static_cast<int>(node.bytes), MPI_BYTE, &made));
      return made;
    }
    std::vector<MPI_Datatype> children;
    for (size_t i = 0; i < (node.one_child ? 1 : node.children.size()); ++i)
      children.push_back(make(node.children[i]));
    const int parts = static_cast<int>(node.children.size());
    if (node.kind == Node::Kind::vector) {
      const int64_t extent = node.children[0].extent;
      const int count = static_cast<int>(node.count), block = static_cast<int>(node.block);
      if (extent != 0 && node.stride % extent == 0)
        MUST(MPI_Type_vector(count, block, static_cast<int>(node.stride / extent), children[0], &bare));
      else
        MUST(MPI_Type_create_hvector(count, block, node.stride, children[0], &bare));
    } else {
      const std::vector<int> blocks(node.blocks.begin(), node.blocks.end());
      const std::vector<MPI_Aint> offsets(node.offsets.begin(), node.offsets.end());
      const bool equal = std::all_of(blocks.begin(), blocks.end(), [&](int b) { return b == blocks[0]; });
      if (!node.one_child)
        MUST(MPI_Type_create_struct(parts, blocks.data(), offsets.data(), children.data(), &bare));
      else if (equal)
        MUST(MPI_Type_create_hindexed_block(parts, blocks[0], offsets.data(), children[0], &bare));
      else
        MUST(MPI_Type_create_hindexed(parts, blocks.data(), offsets.data(), children[0], &bare));
    }
    MUST(MPI_Type_create_resized(bare, node.lower, node.extent, &made));
    MUST(MPI_Type_free(&bare));
    for (MPI_Datatype& child : children) MUST(MPI_Type_free(&child));
    return made;
  }

  MPI_Datatype type_;
};

// Two allocations of device memory and a datatype of all their bytes, from MPI_BOTTOM. Where the allocator
// places allocations side by side (as the simulated GPU and CUDA do), the second begins where the first ends.
class SideBySide {
 public:
  static constexpr size_t part = 64 << 10, bytes = 2 * part;

  SideBySide() {
    for (int tries = 0; tries < 16 && !second_; ++tries) {
      all_.push_back(static_cast<char*>(allocate(Place::device, part)));
      std::sort(all_.begin(), all_.end());
      for (size_t i = 1; i < all_.size(); ++i)
        if (all_[i - 1] + part == all_[i]) first_ = all_[i - 1], second_ = all_[i];
    }
    if (!second_) first_ = all_[0], second_ = all_[1];
    const int lengths[] = {part, part};
    MPI_Aint addresses[2];
    MUST(MPI_Get_address(first_, &addresses[0]));
    MUST(MPI_Get_address(second_, &addresses[1]));
    MPI_Datatype made;
    MUST(MPI_Type_create_hindexed(2, lengths, addresses, MPI_BYTE, &made));
    type_.emplace(made);
  }
  ~SideBySide() {
    for (char* memory : all_) deallocate(Place::device, memory);
  }
  SideBySide(const SideBySide&) = delete;
  SideBySide& operator=(const SideBySide&) = delete;

  MPI_Datatype type() const { return *type_; }
  char* first() const { return first_; }
  char* second() const { return second_; }
  SideBySide& fill(uint64_t key) {
    std::vector<char> pattern(bytes);
    write_pattern(key, pattern.data(), bytes);
    copy(first_, pattern.data(), part);
    copy(second_, pattern.data() + part, part);
    return *this;
  }
  bool holds(uint64_t key) const {
    std::vector<char> wanted(bytes), found(bytes);
    write_pattern(key, wanted.data(), bytes);
    copy(found.data(), first_, part);
    copy(found.data() + part, second_, part);
    return found == wanted;
  }

 private:
  std::vector<char*> all_;
  char *first_ = nullptr, *second_ = nullptr;
  std::optional<Type> type_;
};

// MPICH (4.0.2, 5.0.2) may divide by zero when it packs or unpacks a layout in host memory that has parts
// without bytes; without Fairlead too.
inline bool host_mpi_moves([[maybe_unused]] const Node& node) {
#ifdef MPICH_VERSION
  return !node.has_empty_parts();
#else
  return true;
#endif
}

// Filling and comparing such a buffer takes a second or so; layouts with wide gaps need far more.
constexpr uint64_t longest_span = uint64_t{16} << 20;

// Elements of a layout in a buffer somewhere, and what the bytes of that buffer should be.
class Spread {
 public:
  Spread(Place place, const Node& node, uint64_t count, std::mt19937_64& random)
      : node_(node), count_(count) {
    origin_ = -node.low - std::min<int64_t>(static_cast<int64_t>(count - 1) * node.extent, 0);
    wanted_.resize(node.span(count));
    for (char& byte : wanted_) byte = static_cast<char>(random());
    memory_ = Memory(place, wanted_.size());
    memory_.write(wanted_.data(), wanted_.size());
  }
  void* address() const {
    return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(memory_.data()) +
                                   static_cast<uintptr_t>(origin_));
  }
  size_t bytes() const { return static_cast<size_t>(count_ * node_.size()); }
  // Where it lies, gaps included, and the elements' address in there.
  const Memory& memory() const { return memory_; }
  int64_t origin() const { return origin_; }

  // What a message of it carries.
  std::vector<char> packed() const {
    std::vector<char> bytes;
    walk([&](int64_t at, uint64_t length) {
      bytes.insert(bytes.end(), wanted_.begin() + at, wanted_.begin() + at + static_cast<int64_t>(length));
    });
    return bytes;
  }
  // A message has come.
  void expect(const std::vector<char>& message) {
    size_t from = 0;
    walk([&](int64_t at, uint64_t length) {
      for (uint64_t k = 0; k < length && from < message.size(); ++k)
        wanted_[static_cast<size_t>(at) + k] = message[from++];
    });
  }
  bool holds(std::string* why) const {
    std::vector<char> found(wanted_.size());
    memory_.read(found.data(), found.size());
    auto [wrong, right] = std::mismatch(found.begin(), found.end(), wanted_.begin());
    *why =
        "byte " + std::to_string(wrong - found.begin()) + " of " + std::to_string(found.size()) + " is wrong";
    return wrong == found.end();
  }

 private:
  template <class Run>
  void walk(const Run& run) const {
    for (uint64_t i = 0; i < count_; ++i) node_.walk(origin_ + static_cast<int64_t>(i) * node_.extent, run);
  }

  const Node& node_;
  uint64_t count_;
  int64_t origin_;
  std::vector<char> wanted_;
  Memory memory_;
};

}  // namespace ranks
