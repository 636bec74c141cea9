// SPDX-License-Identifier: Apache-2.0
//
// Partitions that two kernels hand over (src/kernels/handover/handover.h), both on one device: random shapes,
// alignments and ranges of partitions, whoever comes first, in rounds that follow each other.

#include "kernels/handover/handover.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels_fixture.h"

namespace fairlead::kernels {
namespace {

constexpr size_t longest = 40'000, most_partitions = 20;

struct Words {
  Words() {
    void* memory = nullptr;
    EXPECT_SUCCESS(gpu().allocate_pinned(sizeof(uint32_t) * (most_partitions + 1), &memory));
    host = static_cast<uint32_t*>(memory);
    clear();
  }
  ~Words() { EXPECT_SUCCESS(gpu().free_pinned(host)); }
  void clear() const { std::fill_n(host, most_partitions + 1, 0u); }
  uint32_t* sent() const { return host + most_partitions; }
  uint32_t at(size_t word) const { return __atomic_load_n(host + word, __ATOMIC_ACQUIRE); }
  uint32_t* host = nullptr;
};

struct Ends {
  explicit Ends(const HandOverShape& shape)
      : shape(shape),
        message(shape.bytes * shape.partitions),
        shift_from(below(2) * below(32)),
        shift_to(below(2) * below(32)),
        sender(message + 32),
        receiver(message + 32),
        area(shape.area_bytes()) {
    area.write(Bytes(shape.area_bytes()));
  }
  HandOver call() const {
    HandOver call{shape};
    call.buffer = receiver.at(shift_to);
    call.area = area.at(0);
    call.arrived = words.host;
    call.sent = words.sent();
    return call;
  }
  void open() const {
    HandOver opening = call();
    opening.count = shape.partitions;
    ASSERT_SUCCESS(launch_handover(0, receiver.stream(), opening));
  }
  void give(unsigned first, unsigned count) const {
    HandOver giving = call();
    giving.first = first;
    giving.count = count;
    giving.from = sender.at(shift_from);
    ASSERT_SUCCESS(launch_handover(0, sender.stream(), giving));
  }
  HandOverShape shape;
  size_t message, shift_from, shift_to;
  Device sender, receiver, area;
  Words words;
};

// Ranges of partitions, in any order.
std::vector<std::pair<unsigned, unsigned>> random_ranges(unsigned partitions) {
  std::vector<std::pair<unsigned, unsigned>> ranges;
  for (unsigned first = 0; first < partitions;) {
    const auto count = static_cast<unsigned>(1 + below(below(2) ? 1 : partitions - first));
    ranges.emplace_back(first, count);
    first += count;
  }
  std::shuffle(ranges.begin(), ranges.end(), random_bits());
  return ranges;
}

TEST(handover, random_rounds) {
  if (!handover_available(0)) GTEST_SKIP();
  for (int trial = 0; trial < 60; ++trial) {
    HandOverShape shape;
    shape.partitions = static_cast<unsigned>(1 + below(most_partitions));
    shape.bytes = 1 + below(below(2) ? 64 : longest);
    const Ends ends(shape);
    for (int round = 0; round < 4; ++round) {
      const Bytes given = random_bytes(ends.message + 32), before = random_bytes(ends.message + 32);
      ends.sender.write(given);
      ends.receiver.write(before);
      const auto ranges = random_ranges(shape.partitions);
      const size_t opened = below(ranges.size() + 2);  // before this range; or when all are given
      const bool one_by_one = below(2);
      for (size_t i = 0; i <= ranges.size(); ++i) {
        if (i == std::min(opened, ranges.size())) ends.open();
        if (i < ranges.size()) ends.give(ranges[i].first, ranges[i].second);
        if (testing::Test::HasFatalFailure()) return;
        if (!one_by_one) continue;
        ASSERT_SUCCESS(gpu().synchronize_stream(ends.sender.stream()));
        ASSERT_SUCCESS(gpu().synchronize_stream(ends.receiver.stream()));
      }
      ASSERT_SUCCESS(gpu().synchronize_stream(ends.sender.stream()));
      ASSERT_SUCCESS(gpu().synchronize_stream(ends.receiver.stream()));
      Bytes wanted = before;
      std::copy_n(given.begin() + static_cast<long>(ends.shift_from), ends.message,
                  wanted.begin() + static_cast<long>(ends.shift_to));
      const Bytes found = ends.receiver.read();
      const auto differs = std::mismatch(wanted.begin(), wanted.end(), found.begin());
      ASSERT_TRUE(differs.first == wanted.end())
          << "byte " << differs.first - wanted.begin() << " of round " << round << ": " << shape.partitions
          << " partitions of " << shape.bytes << " bytes, shifts " << ends.shift_from << " and "
          << ends.shift_to << ", opened before range " << opened << " of " << ranges.size();
      for (size_t k = 0; k < most_partitions; ++k) ASSERT_EQ(ends.words.at(k), k < shape.partitions);
      ASSERT_EQ(ends.words.at(most_partitions), 1u);
      ends.words.clear();
      const Bytes area = ends.area.read();
      ASSERT_TRUE(std::all_of(area.begin(), area.begin() + static_cast<long>(shape.words_bytes()),
                              [](unsigned char byte) { return byte == 0; }))
          << "a word is left behind";
    }
  }
}

// Nothing is said, and nothing is written to the buffer, before both have come.
TEST(handover, nothing_arrives_before_both_have_come) {
  if (!handover_available(0)) GTEST_SKIP();
  const HandOverShape shape{5000, 4};
  const Ends ends(shape);
  for (bool opens_first : {true, false}) {
    const Bytes given = random_bytes(ends.message + 32), before = random_bytes(ends.message + 32);
    ends.sender.write(given);
    ends.receiver.write(before);
    opens_first ? ends.open() : ends.give(0, 3);
    ASSERT_SUCCESS(gpu().synchronize_stream(ends.sender.stream()));
    EXPECT_EQ(ends.receiver.read(), before);
    for (size_t word = 0; word <= most_partitions; ++word) ASSERT_EQ(ends.words.at(word), 0u);
    opens_first ? ends.give(0, 3) : ends.open();
    ASSERT_SUCCESS(gpu().synchronize_stream(ends.sender.stream()));
    ASSERT_SUCCESS(gpu().synchronize_stream(ends.receiver.stream()));
    for (size_t k = 0; k < shape.partitions; ++k) ASSERT_EQ(ends.words.at(k), k < 3);
    ASSERT_EQ(ends.words.at(most_partitions), 0u);
    ends.give(3, 1);
    ASSERT_SUCCESS(gpu().synchronize_stream(ends.sender.stream()));
    ASSERT_EQ(ends.words.at(3), 1u);
    ASSERT_EQ(ends.words.at(most_partitions), 1u);
    ends.words.clear();
  }
}

// Both at once, many times: no share is lost, or moved twice.
TEST(handover, at_the_same_time) {
  if (!handover_available(0)) GTEST_SKIP();
  const HandOverShape shape{20'000, 3};
  const Ends ends(shape);
  for (int round = 0; round < 300; ++round) {
    const Bytes given = random_bytes(ends.message + 32);
    ends.sender.write(given);
    if (round % 2) {
      ends.open();
      ends.give(0, 3);
    } else {
      ends.give(0, 3);
      ends.open();
    }
    ASSERT_SUCCESS(gpu().synchronize_stream(ends.sender.stream()));
    ASSERT_SUCCESS(gpu().synchronize_stream(ends.receiver.stream()));
    const Bytes found = ends.receiver.read();
    ASSERT_TRUE(std::equal(found.begin() + static_cast<long>(ends.shift_to),
                           found.begin() + static_cast<long>(ends.shift_to + ends.message),
                           given.begin() + static_cast<long>(ends.shift_from)))
        << "round " << round;
    ASSERT_EQ(ends.words.at(most_partitions), 1u);
    ends.words.clear();
  }
}

TEST(handover, impossible_calls_are_refused) {
  HandOver call{{16, 4}};
  for (auto [first, count] : {std::pair{0u, 0u}, std::pair{2u, 3u}}) {
    call.first = first;
    call.count = count;
    EXPECT_EQ(launch_handover(0, nullptr, call), Error::invalid_value);
  }
}

}  // namespace
}  // namespace fairlead::kernels
