// SPDX-License-Identifier: Apache-2.0
// Numbers that another process wrote wrongly are found before they index anything, whatever they are; memory
// of the node that is not there is not mapped.

#include "p2p/rts_check.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>

#include "node/node_memory.h"
#include "node/shared_memory.h"

namespace fairlead::p2p {
namespace {

constexpr uint64_t seed = 20240607;
constexpr RtsLimits limits{4, 16, 32767, 1 << 20};

// Numbers at which checks go wrong, and any others.
class Numbers {
 public:
  uint64_t next() {
    constexpr uint64_t edges[] = {0,     1,         3,          4,         255,        256,
                                  32768, INT32_MAX, UINT32_MAX, INT64_MAX, 1ull << 63, UINT64_MAX};
    const uint64_t drawn = random_();
    return drawn % 2 ? edges[drawn / 2 % std::size(edges)] : random_() >> (random_() % 64);
  }

 private:
  std::mt19937_64 random_{seed};
};

RtsHeader offer_of(int sender, uint32_t number) {
  return {{}, rts_version, sender, number, RtsKind::rendezvous, 4096, 0};
}

TEST(Descriptors, that_are_sound_are_taken) {
  EXPECT_TRUE(is_sound(offer_of(3, 255), limits));
  RtsHeader pipelined{{}, rts_version, 15, 32767, RtsKind::pipelined, INT64_MAX, 1 << 20};
  EXPECT_TRUE(is_sound(pipelined, limits));
}

TEST(Descriptors, name_nothing_that_does_not_exist) {
  for (const RtsHeader& wrong : {offer_of(-1, 0), offer_of(4, 0), offer_of(0, 256), offer_of(0, UINT32_MAX)})
    EXPECT_FALSE(is_sound(wrong, limits)) << wrong.sender << " " << wrong.number;
  EXPECT_FALSE(is_sound(offer_of(0, 0), {0, 16, 32767, 1 << 20})) << "no memory is shared";
  Numbers numbers;
  for (int i = 0; i < 100'000; ++i) {
    RtsHeader any{{},
                  rts_version,
                  static_cast<int32_t>(numbers.next()),
                  static_cast<uint32_t>(numbers.next()),
                  static_cast<RtsKind>(numbers.next() % 4),
                  numbers.next(),
                  numbers.next()};
    if (!is_sound(any, limits)) continue;
    const bool rendezvous = any.kind == RtsKind::rendezvous;
    ASSERT_TRUE(rendezvous || any.kind == RtsKind::pipelined) << "seed " << seed;
    ASSERT_LT(any.sender, rendezvous ? limits.node_ranks : limits.ranks) << "seed " << seed;
    ASSERT_GE(any.sender, 0) << "seed " << seed;
    ASSERT_LE(any.number, rendezvous ? 255u : 32767u) << "seed " << seed;
    ASSERT_TRUE(rendezvous || any.chunk_bytes > 0) << "seed " << seed;
  }
}

TEST(Offers, reach_no_byte_outside_the_memory_they_name) {
  Numbers numbers;
  int sound = 0;
  for (int i = 0; i < 200'000; ++i) {
    kernels::StridedShape shape;
    shape.piece = numbers.next();
    shape.level_count = static_cast<uint32_t>(numbers.next() % 9);
    for (kernels::Level& level : shape.levels)
      level = {numbers.next() % 2 ? 2 : numbers.next(), static_cast<int64_t>(numbers.next())};
    node::RemoteMemory memory{};
    memory.size = numbers.next();
    memory.offset = numbers.next();
    const auto first = static_cast<int64_t>(numbers.next());
    const uint64_t bytes = numbers.next() % 2 ? numbers.next() : shape.piece;
    if (!is_sound(memory, shape, first, bytes)) continue;
    ++sound;
    ASSERT_LE(shape.level_count, kernels::max_levels) << "seed " << seed;
    __int128 low = static_cast<__int128>(memory.offset) + first, high = low + shape.piece;
    for (uint32_t level = 0; level < shape.level_count; ++level) {
      const __int128 reach =
          static_cast<__int128>(shape.levels[level].count - 1) * shape.levels[level].stride;
      (reach < 0 ? low : high) += reach;
    }
    ASSERT_TRUE(low >= 0 && high <= static_cast<__int128>(memory.size)) << "seed " << seed;
  }
  EXPECT_GT(sound, 100) << "too few of the numbers are sound to prove anything";
}

TEST(NodeMemory, that_others_name_wrongly_is_not_there) {
  node::SharedMemory segment = node::SharedMemory::create(4096);
  std::atomic<uint64_t> end{4096};
  node::NodeMemory owner(segment.fd(), end), other(segment.fd(), end);
  node::NodeMemory::Range mine = owner.create(10'000);
  ASSERT_TRUE(mine && mine.data());
  std::memset(mine.data(), 7, mine.bytes());
  node::NodeMemory::Range theirs = other.open(mine.offset(), mine.bytes());
  ASSERT_TRUE(theirs.data());
  EXPECT_EQ(theirs.data()[9'999], 7);
  char through_file = 0;
  EXPECT_TRUE(theirs.read(9'999, &through_file, 1));
  EXPECT_EQ(through_file, 7);
  Numbers numbers;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t offset = numbers.next(), bytes = numbers.next();
    node::NodeMemory::Range range = other.open(offset, bytes);
    if (!range) continue;
    ASSERT_LE(offset + bytes, end.load()) << "seed " << seed;
    ASSERT_TRUE(range.read(bytes - 1, &through_file, 1)) << "seed " << seed;
  }
}

// The end of the file's ranges is in memory of the node, and only grows.
TEST(NodeMemory, is_never_made_where_something_else_is) {
  constexpr uint64_t begin = 8192;
  node::SharedMemory segment = node::SharedMemory::create(begin);
  std::atomic<uint64_t> end{begin};
  node::NodeMemory memory(segment.fd(), end, begin);
  const node::NodeMemory::Range first = memory.create(10'000);
  ASSERT_TRUE(first);
  EXPECT_FALSE(memory.open(0, 4096)) << "the segment is no such range";
  Numbers numbers;
  for (int i = 0; i < 1000; ++i) {
    end = numbers.next();
    const node::NodeMemory::Range range = memory.create(4096 + numbers.next() % 8192);
    if (!range) continue;
    ASSERT_GE(range.offset(), first.offset() + 16'384) << "seed " << seed;
  }
  end = 0;
  EXPECT_FALSE(memory.create(1 << 20));
  EXPECT_EQ(errno, EIO);
}

TEST(NodeMemory, is_refused_and_not_fatal_where_no_file_may_grow) {
  node::SharedMemory segment = node::SharedMemory::create(4096);
  std::atomic<uint64_t> end{4096};
  node::NodeMemory memory(segment.fd(), end);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  EXPECT_FALSE(memory.create(4096));
  EXPECT_EQ(errno, EFBIG);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(memory.create(4096)) << "the room was lost";
}

// As programs do that close all descriptors and then open some.
TEST(NodeMemory, leaves_a_file_alone_that_the_program_opened_by_the_same_number) {
  FILE* other = tmpfile();
  ASSERT_TRUE(other);
  const char words[] = "the program's own";
  ASSERT_EQ(write(fileno(other), words, sizeof words), static_cast<ssize_t>(sizeof words));
  {
    node::SharedMemory segment = node::SharedMemory::create(4096);
    std::atomic<uint64_t> end{0};
    node::NodeMemory memory(segment.fd(), end);
    node::NodeMemory::Range range = memory.create(4096);
    ASSERT_TRUE(range);
    ASSERT_EQ(dup2(fileno(other), segment.fd()), segment.fd());
    EXPECT_FALSE(memory.create(4096));
    EXPECT_FALSE(memory.open(0, sizeof words));
    char byte = 0;
    EXPECT_FALSE(range.write(0, &byte, 1));
    range = {};
    const int number = segment.fd();
    segment = {};
    EXPECT_EQ(lseek(number, 0, SEEK_END), static_cast<off_t>(sizeof words)) << "it is closed, or has grown";
    close(number);
  }
  char found[sizeof words] = "";
  EXPECT_EQ(pread(fileno(other), found, sizeof found, 0), static_cast<ssize_t>(sizeof found));
  EXPECT_STREQ(found, words);
  fclose(other);
}

}  // namespace
}  // namespace fairlead::p2p
