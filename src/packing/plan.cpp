// SPDX-License-Identifier: Apache-2.0

#include "packing/plan.h"

#include <algorithm>
#include <cstring>

#include "device/copies/copy.h"

namespace fairlead::packing {
namespace {

using device::Error;
using kernels::StridedShape;

// One level is reserved for the count of a message.
constexpr unsigned levels_of_elements = kernels::max_levels - 1;

// Repeats the layout that `shape` describes.
void add_level(StridedShape* shape, bool dense_piece, uint64_t count, int64_t stride) {
  if (count == 1) return;
  if (shape->level_count == 0) {
    if (dense_piece && stride == static_cast<int64_t>(shape->piece)) {
      shape->piece *= count;
      return;
    }
  } else {
    auto& [last_count, last_stride] = shape->levels[shape->level_count - 1];
    if (stride == static_cast<int64_t>(last_count) * last_stride) {
      last_count *= count;
      return;
    }
  }
  shape->levels[shape->level_count++] = {count, stride};
}

}  // namespace

uint64_t View::bytes() const {
  uint64_t bytes = shape_.piece;
  for (unsigned k = 0; k < shape_.level_count; ++k) bytes *= shape_.levels[k].count;
  return bytes;
}

View::Run View::run_at(uint64_t position) const {
  uint64_t inside = position, number = 0;
  int64_t offset = 0;
  if (shape_.level_count > 0) {
    inside = position % shape_.piece;
    number = position / shape_.piece;
  }
  for (unsigned k = 0; k < shape_.level_count; ++k) {
    const auto& [count, stride] = shape_.levels[k];
    bool last = k + 1 == shape_.level_count;
    offset += static_cast<int64_t>(last ? number : number % count) * stride;
    number /= count;
  }
  if (!list_) return {offset + static_cast<int64_t>(inside), shape_.piece - inside};
  auto [in_list, bytes] = list_->run_at(inside);
  return {offset + in_list, bytes};
}

View::Rows View::rows_at(uint64_t position) const {
  const auto [offset, bytes] = run_at(position);
  if (list_ || contiguous() || position % shape_.piece != 0) return {offset, bytes, 1, bytes};
  const auto& [count, stride] = shape_.levels[0];
  const auto shortest = static_cast<int64_t>(bytes), longest = static_cast<int64_t>(device::longest_pitch);
  if (stride < shortest || stride > longest) return {offset, bytes, 1, bytes};
  return {offset, bytes, count - position / shape_.piece % count, static_cast<uint64_t>(stride)};
}

uint64_t View::copies() const {
  const bool rows = rows_at(0).rows > 1;
  uint64_t pieces = list_ ? list_->size() : 1;
  for (unsigned k = rows ? 1 : 0; k < shape_.level_count; ++k) pieces *= shape_.levels[k].count;
  return pieces;
}

Attempt View::side_on(int device, kernels::LaidOutBuffer* side) const {
  side->address = address_;
  side->shape = shape_;
  return list_ ? list_->table_on(device, &side->table) : Attempt::made;
}

std::shared_ptr<const Plan> Plan::make(const Tree& element, int64_t extent, size_t most) {
  auto plan = std::make_shared<Plan>();
  plan->element_ = element;
  plan->extent_ = extent;
  plan->dense_ = element.dense() && extent == static_cast<int64_t>(element.size());
  std::vector<kernels::Level> outside_in;
  const Tree* inner = &element;
  for (; inner->is_loop() && outside_in.size() < levels_of_elements; inner = &inner->child())
    outside_in.push_back({inner->count(), inner->stride()});
  plan->shape_.piece = inner->size();
  std::copy(outside_in.rbegin(), outside_in.rend(), plan->shape_.levels);
  plan->shape_.level_count = static_cast<uint32_t>(outside_in.size());
  if (!inner->dense()) {
    plan->list_ = BlockList::make(*inner, most);
    if (!plan->list_) return nullptr;
  }
  return plan;
}

View Plan::view(void* address, uint64_t count) const {
  StridedShape shape = shape_;
  add_level(&shape, !list_, count, extent_);
  // Not by pointer arithmetic: in a layout of absolute addresses, first() is such an address.
  auto first = reinterpret_cast<uintptr_t>(address) + static_cast<uintptr_t>(element_.first());
  return {reinterpret_cast<void*>(first), shape, list_};
}

int64_t Plan::low(uint64_t count) const {
  return element_.low() + std::min<int64_t>(static_cast<int64_t>(count - 1) * extent_, 0);
}

int64_t Plan::high(uint64_t count) const {
  return element_.high() + std::max<int64_t>(static_cast<int64_t>(count - 1) * extent_, 0);
}

bool Plan::operator==(const Plan& other) const {
  bool lists = list_ ? other.list_ && *list_ == *other.list_ : !other.list_;
  return lists && element_.first() == other.element_.first() && extent_ == other.extent_ &&
         shape_ == other.shape_;
}

void move_on_host(const View& to, uint64_t to_at, const View& from, uint64_t from_at, uint64_t bytes) {
  while (bytes > 0) {
    View::Run target = to.run_at(to_at), source = from.run_at(from_at);
    uint64_t length = std::min({bytes, target.bytes, source.bytes});
    std::memcpy(static_cast<char*>(to.address()) + target.offset,
                static_cast<const char*>(from.address()) + source.offset, length);
    to_at += length;
    from_at += length;
    bytes -= length;
  }
}

}  // namespace fairlead::packing
