// SPDX-License-Identifier: Apache-2.0
//
// Trees and plans of datatypes: random layouts against a walk byte by byte, and layouts that are equal
// however they were built. The order of pieces of a move.

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <vector>

#include "packing/move.h"
#include "packing/plan.h"
#include "random_tree.h"

namespace fairlead::packing {
namespace {

using random_layout::Generator;
using random_layout::Node;
using random_layout::seed;
using random_layout::tree_of;

TEST(datatype, every_byte_of_a_random_layout_is_where_a_walk_finds_it) {
  const uint64_t first_seed = seed();
  for (uint64_t round = 0; round < 400; ++round) {
    Generator generator(first_seed + round, round % 3 == 0);
    Node node = generator.make(static_cast<int>(generator.pick(0, 7)));
    uint64_t count = generator.pick(1, 5);
    SCOPED_TRACE("TEST_SEED=" + std::to_string(first_seed + round) + ": " + std::to_string(count) + " of " +
                 node.text());
    Tree tree = tree_of(node);
    ASSERT_EQ(tree.size(), node.size());
    if (tree.empty()) continue;
    EXPECT_EQ(tree.low(), node.low);
    EXPECT_EQ(tree.high(), node.high);
    auto plan = Plan::make(tree, node.extent);
    ASSERT_TRUE(plan);
    std::vector<int64_t> wanted;
    for (uint64_t i = 0; i < count; ++i)
      node.walk(static_cast<int64_t>(i) * node.extent, [&](int64_t at, uint64_t bytes) {
        for (uint64_t k = 0; k < bytes; ++k) wanted.push_back(at + static_cast<int64_t>(k));
      });
    EXPECT_EQ(plan->low(count), *std::min_element(wanted.begin(), wanted.end()));
    EXPECT_EQ(plan->high(count), *std::max_element(wanted.begin(), wanted.end()) + 1);
    View view = plan->view(reinterpret_cast<void*>(0x100000), count);
    auto base = static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.address())) - 0x100000;
    for (uint64_t at = 0; at < wanted.size();) {
      View::Run run = view.run_at(at);
      ASSERT_GT(run.bytes, 0u);
      for (uint64_t k = 0; k < run.bytes && at < wanted.size(); ++k, ++at)
        ASSERT_EQ(base + run.offset + static_cast<int64_t>(k), wanted[at]) << "byte " << at;
    }
    EXPECT_EQ(plan->contiguous() && count == 1, [&] {
      for (size_t i = 0; i < wanted.size(); ++i)
        if (wanted[i] != static_cast<int64_t>(i)) return false;
      return node.extent == static_cast<int64_t>(node.size());
    }() && count == 1);
  }
}

TEST(datatype, runs_from_any_byte_on_are_those_from_the_first) {
  const uint64_t first_seed = seed();
  for (uint64_t round = 0; round < 100; ++round) {
    SCOPED_TRACE("TEST_SEED=" + std::to_string(first_seed + round));
    Generator generator(first_seed + round, false);
    Node node = generator.make(4);
    if (node.size() == 0) continue;
    auto plan = Plan::make(tree_of(node), node.extent);
    View view = plan->view(nullptr, 3);
    for (uint64_t at = 0; at < 3 * node.size();) {
      View::Run run = view.run_at(at);
      for (uint64_t k = 1; k < run.bytes; ++k) {
        View::Run rest = view.run_at(at + k);
        ASSERT_EQ(rest.offset, run.offset + static_cast<int64_t>(k));
        ASSERT_EQ(rest.bytes, run.bytes - k);
      }
      at += run.bytes;
    }
  }
}

TEST(datatype, rows_are_runs_that_lie_equally_far_apart) {
  const uint64_t first_seed = seed();
  uint64_t rectangles = 0;
  for (uint64_t round = 0; round < 100; ++round) {
    SCOPED_TRACE("TEST_SEED=" + std::to_string(first_seed + round));
    Generator generator(first_seed + round, round % 2 == 0);
    Node node = generator.make(4);
    if (node.size() == 0) continue;
    View view = Plan::make(tree_of(node), node.extent)->view(nullptr, 3);
    uint64_t copies = 0;
    for (uint64_t at = 0; at < 3 * node.size(); ++copies) {
      const View::Rows rows = view.rows_at(at);
      at += rows.rows * rows.width;
    }
    EXPECT_EQ(view.copies(), copies);
    for (uint64_t at = 0; at < 3 * node.size();) {
      const View::Rows rows = view.rows_at(at);
      ASSERT_GE(rows.rows, 1u);
      ASSERT_GE(rows.pitch, rows.width);
      ASSERT_LE(at + rows.rows * rows.width, 3 * node.size());
      for (uint64_t k = 0; k < rows.rows; ++k) {
        const View::Run run = view.run_at(at + k * rows.width);
        ASSERT_EQ(run.offset, rows.offset + static_cast<int64_t>(k * rows.pitch));
        ASSERT_EQ(run.bytes, rows.width);
      }
      rectangles += rows.rows > 1;
      // From the middle of a block on.
      at += rows.width > 1 && at % 3 == 0 ? 1 : rows.rows * rows.width;
    }
  }
  EXPECT_GT(rectangles, 0u);
}

const Tree eight = Tree::of_bytes(8);

TEST(datatype, equal_layouts_have_equal_trees) {
  // A matrix of 4 rows of 3 elements, each in every second place of a row.
  Tree rows = eight.repeated(3, 16).repeated(4, 100);
  std::vector<Tree> elements;
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 3; ++column) elements.push_back(eight.shifted(100 * row + 16 * column));
  EXPECT_EQ(Tree::sequence(elements), rows);
  EXPECT_EQ(Tree::sequence({rows, Tree(), eight.repeated(3, 16).shifted(400)}),
            eight.repeated(3, 16).repeated(5, 100));
  Tree single = Tree::sequence({eight, eight.repeated(3, 16).shifted(16)});
  EXPECT_EQ(single, eight.repeated(4, 16));
  EXPECT_EQ(Tree::sequence({eight.shifted(-16), eight, eight.repeated(2, 16).shifted(16), eight.shifted(48)}),
            eight.repeated(5, 16).shifted(-16));
  // Bytes are bytes.
  EXPECT_EQ(eight.repeated(4, 8), Tree::of_bytes(32));
  EXPECT_EQ(Tree::sequence({eight, eight.shifted(8)}), Tree::of_bytes(16));
  EXPECT_EQ(Tree::of_bytes(4).repeated(2, 4).repeated(7, 20).repeated(1, 3), eight.repeated(7, 20));
  // Loops that go on are one.
  EXPECT_EQ(eight.repeated(3, 16).repeated(5, 48), eight.repeated(15, 16));
  // Sequences of sequences are sequences.
  Tree irregular = Tree::sequence({eight, eight.shifted(9), eight.shifted(40)});
  Tree longer = Tree::sequence({eight.shifted(-20), eight, eight.shifted(9), eight.shifted(40)});
  EXPECT_EQ(Tree::sequence({eight.shifted(-20), irregular}), longer);
  // The order of travel makes a difference, and so does the place.
  EXPECT_FALSE(Tree::sequence({eight.shifted(9), eight, eight.shifted(40)}) == irregular);
  EXPECT_FALSE(irregular.shifted(8) == irregular);
  EXPECT_TRUE(Tree().shifted(8) == Tree());
}

TEST(datatype, equal_layouts_have_equal_plans) {
  auto plan = [](const Tree& tree, int64_t extent) { return Plan::make(tree, extent); };
  EXPECT_EQ(*plan(eight.repeated(3, 16), 48),
            *plan(Tree::sequence({eight, eight.shifted(16), eight.shifted(32)}), 48));
  EXPECT_FALSE(*plan(eight.repeated(3, 16), 48) == *plan(eight.repeated(3, 16), 40));
  // So many elements, or one of so many.
  EXPECT_EQ(plan(eight.repeated(3, 16), 48)->view(nullptr, 4).shape(),
            plan(eight.repeated(12, 16), 1)->view(nullptr, 1).shape());
}

TEST(datatype, counts_beyond_32_bits) {
  const uint64_t count = uint64_t{5} << 32;
  auto plan = Plan::make(eight.repeated(count, 24), static_cast<int64_t>(24 * count));
  View view = plan->view(nullptr, 3);
  View::Run run = view.run_at(8 * (2 * count + 7) + 3);
  EXPECT_EQ(run.offset, static_cast<int64_t>(24 * (2 * count + 7) + 3));
  EXPECT_EQ(run.bytes, 5u);
}

TEST(datatype, lists_that_are_too_long_have_no_plan) {
  Tree irregular = Tree::sequence({Tree::of_bytes(1), Tree::of_bytes(3).shifted(5)});
  std::vector<Tree> parts = {irregular.repeated(uint64_t{1} << 24, 16), Tree::of_bytes(1).shifted(-7)};
  EXPECT_FALSE(Plan::make(Tree::sequence(parts), 100));
  EXPECT_TRUE(Plan::make(irregular.repeated(uint64_t{1} << 40, 16), 100));
  const Tree three = Tree::sequence({irregular, Tree::of_bytes(1).shifted(20)});
  EXPECT_TRUE(Plan::make(three, 100, 3));
  EXPECT_FALSE(Plan::make(three, 100, 2));
}

// 10^12 blocks, of which there must be no list before that is known.
TEST(datatype, irregular_layouts_of_irregular_layouts_have_no_plan) {
  Tree tree = Tree::of_bytes(1);
  for (int depth = 0; depth < 6; ++depth) {
    std::vector<Tree> parts;
    for (int64_t i = 0; i < 100; ++i) parts.push_back(tree.shifted(i * (2 * tree.high() + i)));
    tree = Tree::sequence(parts);
  }
  EXPECT_EQ(tree.size(), 1000000000000u);
  EXPECT_FALSE(Plan::make(tree, tree.high()));
}

TEST(pieces, two_are_under_way_and_the_first_failure_ends_all) {
  auto steps_until = [](const std::string& failing) {
    std::string steps, slots[2] = {"A", "B"};
    auto step = [&](const char* what) {
      return [&steps, &failing, what](const std::string& slot, uint64_t at, uint64_t length) {
        const std::string words = what + slot + std::to_string(at) + "+" + std::to_string(length);
        steps += words + " ";
        return words != failing;
      };
    };
    pass_in_pieces(slots, 14, 4, step("begin"), step("end"));
    return steps;
  };
  EXPECT_EQ(steps_until(""), "beginA0+4 beginB4+4 endA0+4 beginA8+4 endB4+4 beginB12+2 endA8+4 endB12+2 ");
  EXPECT_EQ(steps_until("beginB4+4"), "beginA0+4 beginB4+4 ");
  EXPECT_EQ(steps_until("endA0+4"), "beginA0+4 beginB4+4 endA0+4 ");
}

}  // namespace
}  // namespace fairlead::packing
