// SPDX-License-Identifier: Apache-2.0
//
// The layout of a datatype as a tree: bytes without gaps, a repetition of a layout, or a sequence of layouts,
// in transfer order. Trees are canonical by construction: layouts that were built in different ways, but
// consist of the same bytes in the same order, become the same tree, as far as loops and adjacent bytes are
// concerned. Immutable, and cheap to copy.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fairlead::packing {

struct Composite;

// Irregular layouts with more blocks have no plan.
inline constexpr size_t blocks_at_most = size_t{1} << 24;

class Tree {
 public:
  Tree() = default;  // no bytes
  static Tree of_bytes(uint64_t count);
  // `count` times this layout, each `stride` bytes after the previous one.
  Tree repeated(uint64_t count, int64_t stride) const;
  Tree shifted(int64_t offset) const;
  static Tree sequence(std::vector<Tree> parts);

  uint64_t size() const { return size_; }  // bytes that a message carries
  bool empty() const { return size_ == 0; }
  // Offsets from the buffer's address: of the first byte in transfer order, and of all bytes that the layout
  // touches.
  int64_t first() const { return first_; }
  int64_t low() const;
  int64_t high() const;

  bool dense() const { return !inner_; }
  // For a tree that is not dense: a loop over child(), which starts at its first(), or a sequence.
  bool is_loop() const;
  uint64_t count() const;
  int64_t stride() const;
  const Tree& child() const;
  const std::vector<Tree>& parts() const;  // their first() counts from that of the sequence

  bool operator==(const Tree& other) const;

 private:
  bool same_layout(const Tree& other) const;  // wherever they begin
  static Tree make(int64_t first, Composite inner);
  static void append(std::vector<Tree>* parts, const Tree& next);
  static Tree grouped(const std::vector<Tree>& parts);
  static uint64_t flat(const std::vector<Tree>& parts);

  int64_t first_ = 0;
  uint64_t size_ = 0;
  std::shared_ptr<const Composite> inner_;
};

}  // namespace fairlead::packing
