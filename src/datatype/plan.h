// SPDX-License-Identifier: Apache-2.0
//
// How the bytes of a datatype are moved: loops around pieces, which are blocks without gaps or, where a
// layout is irregular, lists of blocks. Any range of a message can be found in memory, so that messages move
// in pieces and may end inside an element. Equal layouts have equal plans.

#pragma once

#include <memory>

#include "datatype/block_list.h"
#include "datatype/tree.h"
#include "kernels/blocks.h"

namespace fairlead::datatype {

// The bytes of a buffer in the order in which they travel.
class View {
 public:
  View() = default;
  // Without gaps.
  View(void* address, uint64_t bytes) : address_(address) { shape_.piece = bytes; }
  View(void* address, const kernels::Shape& shape, std::shared_ptr<const BlockList> list = nullptr)
      : address_(address), shape_(shape), list_(std::move(list)) {}

  void* address() const { return address_; }  // of the first byte that travels
  const kernels::Shape& shape() const { return shape_; }
  const BlockList* list() const { return list_.get(); }
  bool contiguous() const { return shape_.contiguous() && !list_; }
  // Can its layout be told in a few words?
  bool regular() const { return !list_; }
  uint64_t bytes() const;  // that travel
  // The same layout in other memory, as far from `to` as this one is from `from`.
  View moved(const void* from, void* to) const {
    View copy = *this;
    copy.address_ = static_cast<char*>(to) + (static_cast<char*>(address_) - static_cast<const char*>(from));
    return copy;
  }
  // The bytes that lie together, on the average.
  uint64_t block_bytes() const { return list_ ? list_->mean_block() : shape_.piece; }

  struct Run {
    int64_t offset;  // from address()
    uint64_t bytes;
  };
  // The bytes from this one on that lie together.
  Run run_at(uint64_t position) const;
  struct Rows {
    int64_t offset;  // of the first, from address()
    uint64_t width, rows, pitch;
  };
  // The blocks from this byte on that are equally long and far apart, as copy engines take them: at least
  // the rest of its own.
  Rows rows_at(uint64_t position) const;
  // How many of these it has.
  uint64_t copies() const;
  // For a kernel on this device; none, not_ready or failed.
  device::Error side_on(int device, kernels::Side* side) const;

 private:
  void* address_ = nullptr;
  kernels::Shape shape_;
  std::shared_ptr<const BlockList> list_;
};

class Plan {
 public:
  // Of elements that lie `extent` apart. Null when the list would be too long.
  static std::shared_ptr<const Plan> make(const Tree& element, int64_t extent);

  uint64_t element_bytes() const { return element_.size(); }
  // Do elements lie without gaps from the address of the buffer on?
  bool contiguous() const { return dense_ && element_.first() == 0; }
  // `count` elements, at least one, in a buffer at this address.
  View view(void* address, uint64_t count) const;
  // The bytes it touches, from the address of the buffer; above 0 elements.
  int64_t low(uint64_t count) const;
  int64_t high(uint64_t count) const;

  bool operator==(const Plan& other) const;

 private:
  Tree element_;
  int64_t extent_ = 0;
  bool dense_ = false;
  kernels::Shape shape_;  // of one element
  std::shared_ptr<const BlockList> list_;
};

// On the CPU, which can reach both.
void move_on_host(const View& to, uint64_t to_at, const View& from, uint64_t from_at, uint64_t bytes);

}  // namespace fairlead::datatype
