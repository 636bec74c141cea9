// SPDX-License-Identifier: Apache-2.0
//
// Random layouts (random_layout.h) as the trees of src/packing, for the tests that know no MPI.

#pragma once

#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

#include "packing/tree.h"
#include "random_layout.h"

namespace random_layout {

// The seed in the environment variable TEST_SEED; else a new one each time.
inline uint64_t seed() {
  const char* given = std::getenv("TEST_SEED");
  return given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

inline fairlead::packing::Tree tree_of(const Node& node) {
  using fairlead::packing::Tree;
  if (node.kind == Node::Kind::basic) return Tree::of_bytes(node.bytes);
  if (node.kind == Node::Kind::vector)
    return tree_of(node.children[0])
        .repeated(node.block, node.children[0].extent)
        .repeated(node.count, node.stride);
  std::vector<Tree> parts;
  for (size_t i = 0; i < node.children.size(); ++i)
    parts.push_back(
        tree_of(node.children[i]).repeated(node.blocks[i], node.children[i].extent).shifted(node.offsets[i]));
  return Tree::sequence(std::move(parts));
}

}  // namespace random_layout
