// SPDX-License-Identifier: Apache-2.0
//
// How the bytes of a datatype are moved: loops around pieces, which are blocks without gaps or, if the layout
// is irregular, lists of blocks. Any range of a message can be located in memory, so that messages can move
// in pieces and may end inside an element. Equal layouts have equal plans.

#pragma once

#include <memory>

#include "kernels/blocks.h"
#include "packing/block_list.h"
#include "packing/tree.h"

namespace fairlead::packing {

// The bytes of a buffer in transfer order, which is the order in which a message carries them.
class View {
 public:
  View() = default;
  // A buffer without gaps.
  View(void* address, uint64_t bytes) : address_(address) { shape_.piece = bytes; }
  View(void* address, const kernels::StridedShape& shape, std::shared_ptr<const BlockList> list = nullptr)
      : address_(address), shape_(shape), list_(std::move(list)) {}

  void* address() const { return address_; }  // of the first byte in transfer order
  const kernels::StridedShape& shape() const { return shape_; }
  const BlockList* list() const { return list_.get(); }
  bool contiguous() const { return shape_.contiguous() && !list_; }
  // Does the shape alone describe the layout?
  bool regular() const { return !list_; }
  uint64_t bytes() const;  // bytes that a message carries
  // The same layout in other memory, as far from `to` as this one is from `from`.
  View moved(const void* from, void* to) const {
    View copy = *this;
    copy.address_ = static_cast<char*>(to) + (static_cast<char*>(address_) - static_cast<const char*>(from));
    return copy;
  }
  // The mean number of bytes that are contiguous.
  uint64_t block_bytes() const { return list_ ? list_->mean_block() : shape_.piece; }

  struct Run {
    int64_t offset;  // from address()
    uint64_t bytes;
  };
  // The contiguous bytes from `position` on.
  Run run_at(uint64_t position) const;
  struct Rows {
    int64_t offset;  // of the first row, from address()
    uint64_t width, rows, pitch;
  };
  // The blocks from `position` on that have equal lengths and distances, as copy engines accept them: at
  // least the rest of the block that contains `position`.
  Rows rows_at(uint64_t position) const;
  // The number of such groups of blocks in the buffer.
  uint64_t copies() const;
  // Describes the buffer for a kernel on this device.
  Attempt side_on(int device, kernels::LaidOutBuffer* side) const;

 private:
  void* address_ = nullptr;
  kernels::StridedShape shape_;
  std::shared_ptr<const BlockList> list_;
};

class Plan {
 public:
  // For elements that are `extent` bytes apart. Null if the list of blocks would be longer than `most`.
  static std::shared_ptr<const Plan> make(const Tree& element, int64_t extent, size_t most = blocks_at_most);

  uint64_t element_bytes() const { return element_.size(); }
  // Are elements contiguous from the address of the buffer on?
  bool contiguous() const { return dense_ && element_.first() == 0; }
  // `count` elements, at least one, in a buffer at this address.
  View view(void* address, uint64_t count) const;
  // The range of bytes that `count` elements touch, from the address of the buffer; `count` is at least 1.
  int64_t low(uint64_t count) const;
  int64_t high(uint64_t count) const;

  bool operator==(const Plan& other) const;

 private:
  Tree element_;
  int64_t extent_ = 0;
  bool dense_ = false;
  kernels::StridedShape shape_;  // of one element
  std::shared_ptr<const BlockList> list_;
};

// Moves bytes on the CPU, which can access both buffers.
void move_on_host(const View& to, uint64_t to_at, const View& from, uint64_t from_at, uint64_t bytes);

}  // namespace fairlead::packing
