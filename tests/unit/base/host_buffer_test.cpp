// SPDX-License-Identifier: Apache-2.0
//
// Host memory for messages in passing: what buffers for receives cost, and that nothing of the program's lies
// behind them.

#include "base/memory/host_buffer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

using fairlead::HostBuffer;

namespace {

constexpr size_t MiB = size_t{1} << 20;
constexpr size_t nobodys_bytes = 64 * MiB;

size_t address_space() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t resident() {
  size_t pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

HostBuffer for_receive(size_t bytes) {
  return HostBuffer(bytes, HostBuffer::For::receive);
}

TEST(host_buffer, receives_take_the_address_space_of_their_messages) {
  for (size_t bytes : {size_t{96}, size_t{4096}, size_t{100000}, MiB}) {
    const size_t before = address_space(), many = std::min(200 * MiB / bytes, size_t{20000});
    std::vector<HostBuffer> buffers;
    for (size_t i = 0; i < many; ++i) {
      buffers.push_back(for_receive(bytes));
      ASSERT_NE(buffers.back().data(), nullptr);
    }
    // The first 128 have 1 MiB behind them, in regions that double until 64 MiB and have 64 MiB behind them.
    EXPECT_LE(address_space() - before, 4 * many * bytes + 2 * 128 * MiB + 8 * nobodys_bytes) << bytes;
  }
}

TEST(host_buffer, released_ones_are_used_again) {
  const unsigned char* first = for_receive(5000).data();
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(for_receive(5000).data(), first);
}

TEST(host_buffer, receives_give_most_of_their_pages_back) {
  constexpr size_t many = 20000, bytes = 4096;
  const size_t before = resident();
  {
    std::vector<HostBuffer> buffers;
    for (size_t i = 0; i < many; ++i) {
      buffers.push_back(for_receive(bytes));
      std::memset(buffers.back().data(), 1, bytes);
    }
    EXPECT_GE(resident() - before, many * bytes / 2);
  }
  EXPECT_LE(resident(), before + many * bytes / 4);
}

TEST(host_buffer, receives_of_all_lengths_do_not_overlap) {
  struct Range {
    uintptr_t begin, end;
  };
  std::vector<HostBuffer> buffers;
  std::vector<Range> ranges;
  for (int i = 0; i < 2000; ++i) {
    const size_t bytes = size_t{1} << i % 18;
    buffers.push_back(for_receive(bytes));
    const auto begin = reinterpret_cast<uintptr_t>(buffers.back().data());
    ASSERT_NE(begin, 0U);
    ranges.push_back({begin, begin + bytes});
    if (bytes >= 4096) {
      EXPECT_EQ(begin % 4096, 0U) << bytes;
    }
    std::memset(buffers.back().data(), 1, bytes);
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < ranges.size(); ++i) EXPECT_LE(ranges[i - 1].end, ranges[i].begin);
}

// By a message that is longer than its receive: it meets none of the first others that wait.
TEST(host_buffer, the_first_receives_have_room_behind_them) {
  std::vector<HostBuffer> buffers;
  for (int i = 0; i < 5; ++i) {
    buffers.push_back(for_receive(70));
    std::memset(buffers.back().data(), i, 70);
  }
  std::memset(buffers[3].data(), 9, MiB);
  for (int i : {0, 1, 2, 4})
    for (int at = 0; at < 70; ++at) ASSERT_EQ(buffers[static_cast<size_t>(i)].data()[at], i) << at;
}

// By a message that is longer than its receive.
TEST(host_buffer, what_lies_behind_a_receive_may_be_overwritten) {
  const std::vector<HostBuffer> others = [] {
    std::vector<HostBuffer> made;
    for (int i = 0; i < 100; ++i) made.emplace_back(size_t{1} << i % 24);
    return made;
  }();
  for (const HostBuffer& other : others) std::memset(other.data(), 7, 1);
  for (size_t bytes : {size_t{8}, 3 * MiB, nobodys_bytes}) {
    HostBuffer buffer = for_receive(bytes);
    std::memset(buffer.data() + bytes, 1, nobodys_bytes - bytes % nobodys_bytes);
  }
  for (const HostBuffer& other : others) EXPECT_EQ(*other.data(), 7);
}

}  // namespace
