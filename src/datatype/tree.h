// SPDX-License-Identifier: Apache-2.0
//
// The layout of a datatype as a tree: bytes without gaps, a repetition of a layout, or a sequence of layouts,
// in the order in which the bytes travel. Trees are canonical as they are made: layouts that were built in
// different ways and are the same bytes in the same order become the same tree, as far as loops and
// neighbouring bytes go. Immutable, and cheap to copy.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace fairlead::datatype {

struct Composite;

// Irregular layouts of more have no plan.
inline constexpr size_t blocks_at_most = size_t{1} << 24;

class Tree {
 public:
  Tree() = default;  // no bytes
  static Tree of_bytes(uint64_t count);
  // `count` times this layout, each `stride` bytes from the one before.
  Tree repeated(uint64_t count, int64_t stride) const;
  Tree shifted(int64_t offset) const;
  static Tree sequence(std::vector<Tree> parts);

  uint64_t size() const { return size_; }  // bytes that travel
  bool empty() const { return size_ == 0; }
  // Of the first byte that travels, and of the bytes it touches in all; from the buffer's address.
  int64_t first() const { return first_; }
  int64_t low() const;
  int64_t high() const;

  bool dense() const { return !inner_; }
  // Of one that is not: a loop over child(), which starts at its first(), or a sequence.
  bool is_loop() const;
  uint64_t count() const;
  int64_t stride() const;
  const Tree& child() const;
  const std::vector<Tree>& parts() const;  // their first() counts from that of the sequence

  bool operator==(const Tree& other) const;

 private:
  bool same_layout(const Tree& other) const;  // wherever it begins
  static Tree make(int64_t first, Composite inner);
  static void append(std::vector<Tree>* parts, const Tree& next);
  static Tree grouped(const std::vector<Tree>& parts);
  static uint64_t flat(const std::vector<Tree>& parts);

  int64_t first_ = 0;
  uint64_t size_ = 0;
  std::shared_ptr<const Composite> inner_;
};

}  // namespace fairlead::datatype
