// SPDX-License-Identifier: Apache-2.0
//
// Random nested layouts for tests of datatypes: a description that a test builds its type from, and a walk of
// it byte run by byte run that knows nothing of loops, plans or MPI. Every compound has a lower bound and an
// extent of its own, so that the alignment rules of MPI libraries make no difference.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace random_layout {

struct Node {
  enum class Kind { basic, vector, list } kind = Kind::basic;
  uint64_t bytes = 0;             // of a basic one
  uint64_t count = 0, block = 1;  // a vector of `count` blocks of so many
  int64_t stride = 0;             // in bytes
  std::vector<uint64_t> blocks;   // a list: so many of each child
  std::vector<int64_t> offsets;
  std::vector<Node> children;
  int64_t lower = 0, extent = 0;  // as resized
  int64_t low = 0, high = 0;      // what it touches
  bool one_child = false;         // all of a list are alike: it may be an hindexed type

  uint64_t size() const {
    uint64_t sum = 0;
    if (kind == Kind::basic) return bytes;
    if (kind == Kind::vector) return count * block * children[0].size();
    for (size_t i = 0; i < children.size(); ++i) sum += blocks[i] * children[i].size();
    return sum;
  }

  // Is it made of layouts without bytes, anywhere inside?
  bool has_empty_parts() const {
    return std::any_of(children.begin(), children.end(),
                       [](const Node& child) { return child.size() == 0 || child.has_empty_parts(); });
  }

  // Bytes from the first to the last one that so many of it touch.
  uint64_t span(uint64_t elements) const {
    const int64_t walk = static_cast<int64_t>(elements - 1) * extent;
    return static_cast<uint64_t>(high - low + (walk < 0 ? -walk : walk));
  }

  // Calls run(offset, bytes) for each basic element in order.
  template <class Run>
  void walk(int64_t at, const Run& run) const {
    if (kind == Kind::basic) return run(at, bytes);
    if (kind == Kind::vector) {
      for (uint64_t i = 0; i < count; ++i)
        for (uint64_t k = 0; k < block; ++k)
          children[0].walk(
              at + static_cast<int64_t>(i) * stride + static_cast<int64_t>(k) * children[0].extent, run);
      return;
    }
    for (size_t i = 0; i < children.size(); ++i)
      for (uint64_t k = 0; k < blocks[i]; ++k)
        children[i].walk(at + offsets[i] + static_cast<int64_t>(k) * children[i].extent, run);
  }

  std::string text() const {
    if (kind == Kind::basic) return "b" + std::to_string(bytes);
    std::string words = kind == Kind::vector
                            ? "vector(" + std::to_string(count) + "x" + std::to_string(block) + " stride " +
                                  std::to_string(stride) + " of "
                            : "list(";
    for (size_t i = 0; i < children.size(); ++i) {
      if (kind == Kind::list) words += std::to_string(blocks[i]) + "@" + std::to_string(offsets[i]) + " ";
      words += children[i].text() + " ";
    }
    return words + "extent " + std::to_string(lower) + "+" + std::to_string(extent) + ")";
  }
};

class Generator {
 public:
  // No byte twice, so that it may be received, unless `overlapping`. Open MPI 4.1 takes elements that follow
  // each other backwards for ones that do so forwards: not `backwards` there are gaps between such.
  Generator(uint64_t seed, bool overlapping, bool backwards = true)
      : random_(seed), overlapping_(overlapping), backwards_(backwards) {}

  Node make(int depth, uint64_t room = 200) {
    granule_ = int64_t{1} << pick(0, 4);
    return node(depth, room);
  }
  uint64_t pick(uint64_t low, uint64_t high) {
    return std::uniform_int_distribution<uint64_t>(low, high)(random_);
  }

 private:
  bool chance(int percent) { return static_cast<int>(pick(1, 100)) <= percent; }
  int64_t up(int64_t bytes) const { return (bytes + granule_ - 1) / granule_ * granule_; }

  Node basic() {
    Node node;
    int widest = 0;
    while (widest < 3 && (int64_t{2} << widest) <= granule_) ++widest;
    node.bytes =
        uint64_t{1} << (chance(70) ? widest : static_cast<int>(pick(0, static_cast<uint64_t>(widest))));
    if (chance(15)) node.bytes = static_cast<uint64_t>(granule_) * pick(64, 128) / 8 * 8;
    node.extent = node.high = static_cast<int64_t>(node.bytes);
    return node;
  }

  // As far apart as elements of this kind must be, sometimes the other way round.
  int64_t apart(const Node& node, int backwards) {
    int64_t distance = forwards(node);
    if (!chance(backwards)) return distance;
    if (!backwards_) distance = std::max(distance, up(node.high - node.low)) + granule_;
    return -distance;
  }

  int64_t forwards(const Node& node) {
    int64_t span = node.high - node.low;
    int64_t distance =
        chance(30) ? std::max(up(span), granule_) : up(span) + static_cast<int64_t>(pick(0, 3)) * granule_;
    if (overlapping_ && chance(30)) distance = std::max(up(span / 2), backwards_ ? 0 : granule_);
    return distance;
  }

  Node node(int depth, uint64_t room) {
    if (depth == 0 || room < 2) return basic();
    Node made;
    if (chance(60)) {
      made.kind = Node::Kind::vector;
      made.children.push_back(node(depth - 1, room / 4));
      const Node& child = made.children[0];
      made.count = chance(5) ? 0 : pick(1, std::max<uint64_t>(std::min<uint64_t>(room / 2, 12), 1));
      made.block = chance(50) ? 1 : pick(1, 4);
      int64_t walk = static_cast<int64_t>(made.block - 1) * child.extent;
      Node row;
      row.low = child.low + std::min<int64_t>(walk, 0);
      row.high = child.high + std::max<int64_t>(walk, 0);
      made.stride = apart(row, 20);
    } else {
      made.kind = Node::Kind::list;
      made.one_child = chance(60);
      uint64_t parts = pick(1, std::min<uint64_t>(room / 2, 9));
      Node shared = node(depth - 1, room / (2 * parts));
      int64_t at = static_cast<int64_t>(pick(0, 3)) * granule_ - 2 * granule_;
      for (uint64_t i = 0; i < parts; ++i) {
        made.children.push_back(made.one_child ? shared : node(depth - 1, room / (2 * parts)));
        const Node& child = made.children.back();
        made.blocks.push_back(chance(15) ? 0 : pick(1, 3));
        int64_t walk = made.blocks[i] ? static_cast<int64_t>(made.blocks[i] - 1) * child.extent : 0;
        int64_t low = child.low + std::min<int64_t>(walk, 0), high = child.high + std::max<int64_t>(walk, 0);
        at = up(at);
        made.offsets.push_back(up(at - low));
        at = made.offsets[i] + high + static_cast<int64_t>(pick(0, 2)) * granule_;
        if (overlapping_ && chance(20)) at -= (high - low) / 2;
      }
      if (!made.one_child || chance(50)) shuffle(&made);
    }
    bool any = false;
    made.walk(0, [&](int64_t at, uint64_t bytes) {
      made.low = any ? std::min(made.low, at) : at;
      made.high =
          any ? std::max(made.high, at + static_cast<int64_t>(bytes)) : at + static_cast<int64_t>(bytes);
      any = true;
    });
    made.extent = apart(made, 10);
    made.lower = chance(70) ? up(made.low) : up(made.low) - static_cast<int64_t>(pick(0, 2)) * granule_;
    return made;
  }

  void shuffle(Node* node) {
    for (size_t i = node->children.size(); i-- > 1;) {
      size_t k = pick(0, i);
      std::swap(node->children[i], node->children[k]);
      std::swap(node->blocks[i], node->blocks[k]);
      std::swap(node->offsets[i], node->offsets[k]);
    }
  }

  std::mt19937_64 random_;
  bool overlapping_, backwards_;
  int64_t granule_ = 1;
};

}  // namespace random_layout
