// SPDX-License-Identifier: Apache-2.0

#include "packing/tree.h"

#include <algorithm>
#include <iterator>

namespace fairlead::packing {

struct Composite {
  uint64_t count = 0;  // 0: a sequence
  int64_t stride = 0;
  std::vector<Tree> parts;    // a loop has one, the child
  int64_t low = 0, high = 0;  // from first()
  uint64_t flat = 1;          // number of parts with nested sequences expanded
};

Tree Tree::of_bytes(uint64_t count) {
  Tree tree;
  tree.size_ = count;
  return tree;
}

Tree Tree::make(int64_t first, Composite inner) {
  Tree tree;
  tree.first_ = first;
  if (inner.count > 0) {
    const Tree& child = inner.parts.front();
    int64_t walk = static_cast<int64_t>(inner.count - 1) * inner.stride;
    inner.low = child.low() + std::min<int64_t>(walk, 0);
    inner.high = child.high() + std::max<int64_t>(walk, 0);
    tree.size_ = child.size_ * inner.count;
  } else {
    inner.low = inner.parts.front().low();
    for (const Tree& part : inner.parts) {
      inner.low = std::min(inner.low, part.low());
      inner.high = std::max(inner.high, part.high());
      tree.size_ += part.size_;
    }
    inner.flat = flat(inner.parts);
  }
  tree.inner_ = std::make_shared<const Composite>(std::move(inner));
  return tree;
}

uint64_t Tree::flat(const std::vector<Tree>& parts) {
  uint64_t sum = 0;
  for (const Tree& part : parts) sum += part.inner_ ? part.inner_->flat : 1;
  return sum;
}

int64_t Tree::low() const {
  return first_ + (inner_ ? inner_->low : 0);
}
int64_t Tree::high() const {
  return first_ + (inner_ ? inner_->high : static_cast<int64_t>(size_));
}
bool Tree::is_loop() const {
  return inner_ && inner_->count > 0;
}
uint64_t Tree::count() const {
  return inner_->count;
}
int64_t Tree::stride() const {
  return inner_->stride;
}
const Tree& Tree::child() const {
  return inner_->parts.front();
}
const std::vector<Tree>& Tree::parts() const {
  return inner_->parts;
}

bool Tree::same_layout(const Tree& other) const {
  if (size_ != other.size_ || !inner_ != !other.inner_) return false;
  if (inner_ == other.inner_) return true;
  return inner_->count == other.inner_->count && inner_->stride == other.inner_->stride &&
         inner_->parts == other.inner_->parts;
}

bool Tree::operator==(const Tree& other) const {
  return (empty() && other.empty()) || (first_ == other.first_ && same_layout(other));
}

Tree Tree::shifted(int64_t offset) const {
  Tree tree = *this;
  if (!empty()) tree.first_ += offset;
  return tree;
}

Tree Tree::repeated(uint64_t count, int64_t stride) const {
  if (count == 0 || empty()) return {};
  if (count == 1) return *this;
  if (dense() && stride == static_cast<int64_t>(size_)) return of_bytes(size_ * count).shifted(first_);
  if (is_loop() && stride == static_cast<int64_t>(this->count()) * this->stride())
    return make(first_, {.count = this->count() * count, .stride = this->stride(), .parts = {child()}});
  return make(first_, {.count = count, .stride = stride, .parts = {shifted(-first_)}});
}

// Adjacent bytes become one part, and a part that continues a loop becomes part of the loop.
void Tree::append(std::vector<Tree>* parts, const Tree& next) {
  if (next.empty()) return;
  if (next.inner_ && !next.is_loop()) {
    for (const Tree& part : next.parts()) append(parts, part.shifted(next.first_));
    return;
  }
  if (parts->empty()) return parts->push_back(next);
  Tree& last = parts->back();
  if (last.dense() && next.dense() && last.high() == next.first_) {
    last.size_ += next.size_;
    return;
  }
  if (last.is_loop() && last.first_ + static_cast<int64_t>(last.count()) * last.stride() == next.first_) {
    bool loops_on = next.is_loop() && next.stride() == last.stride() && next.child() == last.child();
    if (loops_on || next.same_layout(last.child())) {
      uint64_t count = last.count() + (loops_on ? next.count() : 1);
      last = last.child().repeated(count, last.stride()).shifted(last.first_);
      return;
    }
  }
  if (next.is_loop() && last.first_ + next.stride() == next.first_ && last.same_layout(next.child())) {
    Tree longer = next.child().repeated(next.count() + 1, next.stride()).shifted(last.first_);
    parts->pop_back();
    return append(parts, longer);
  }
  parts->push_back(next);
}

// Turns equal parts at regular offsets into nested loops. Returns an empty tree if the offsets are irregular.
Tree Tree::grouped(const std::vector<Tree>& parts) {
  size_t n = parts.size();
  if (n == 1) return parts.front();
  int64_t stride = parts[1].first_ - parts[0].first_;
  size_t run = 2;
  while (run < n && parts[run].first_ - parts[run - 1].first_ == stride) ++run;
  if (n % run != 0) return {};
  std::vector<Tree> groups;
  Tree group = parts[0].shifted(-parts[0].first_).repeated(run, stride);
  for (size_t i = 0; i < n; i += run) {
    for (size_t k = 1; k < run; ++k)
      if (parts[i + k].first_ - parts[i + k - 1].first_ != stride) return {};
    groups.push_back(group.shifted(parts[i].first_));
  }
  return grouped(groups);
}

Tree Tree::sequence(std::vector<Tree> given) {
  std::vector<Tree> parts;
  parts.reserve(given.size());
  if (flat(given) > blocks_at_most) {
    // Such a layout has no plan, so its parts are not simplified.
    std::copy_if(given.begin(), given.end(), std::back_inserter(parts),
                 [](const Tree& part) { return !part.empty(); });
  } else {
    for (const Tree& part : given) append(&parts, part);
  }
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts.front();
  bool equal = std::all_of(parts.begin() + 1, parts.end(),
                           [&](const Tree& part) { return part.same_layout(parts.front()); });
  if (equal)
    if (Tree loops = grouped(parts); !loops.empty()) return loops;
  int64_t first = parts.front().first_;
  for (Tree& part : parts) part.first_ -= first;
  return make(first, {.parts = std::move(parts)});
}

}  // namespace fairlead::packing
