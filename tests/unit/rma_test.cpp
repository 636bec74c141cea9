// SPDX-License-Identifier: Apache-2.0
//
// The parts of one-sided communication that know no MPI: the lock of a target, and requests as they travel.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <iostream>
#include <numeric>
#include <random>
#include <thread>

#include "rma/dead_owner.h"
#include "rma/locks.h"
#include "rma/wire.h"

using namespace fairlead;
using packing::Tree;

namespace {

struct Locked {
  alignas(rma::TargetWords) unsigned char memory[sizeof(rma::TargetWords)] = {};
  rma::TargetWords& words() { return *reinterpret_cast<rma::TargetWords*>(memory); }
  rma::FairLock& lock() { return words().lock; }
};

}  // namespace

TEST(FairLock, readers_share_and_writers_do_not) {
  Locked it;
  const uint32_t first = it.lock().draw(), second = it.lock().draw(), writer = it.lock().draw(),
                 last = it.lock().draw();
  EXPECT_FALSE(it.lock().enter(second, false)) << "before the one that came first";
  EXPECT_TRUE(it.lock().enter(first, false));
  EXPECT_TRUE(it.lock().enter(second, false));
  EXPECT_FALSE(it.lock().enter(writer, true)) << "beside readers";
  it.lock().leave(false);
  EXPECT_FALSE(it.lock().enter(writer, true)) << "beside the last reader";
  EXPECT_FALSE(it.lock().enter(last, false)) << "past a writer that waits";
  it.lock().leave(false);
  EXPECT_TRUE(it.lock().enter(writer, true));
  EXPECT_FALSE(it.lock().enter(last, false)) << "beside a writer";
  it.lock().leave(true);
  EXPECT_TRUE(it.lock().enter(last, false));
  it.lock().leave(false);
}

TEST(FairLock, threads_lose_no_update) {
  Locked it;
  long value = 0, seen_changing = 0;
  std::vector<std::thread> all;
  for (int worker = 0; worker < 4; ++worker) {
    all.emplace_back([&, worker] {
      for (int i = 0; i < 500; ++i) {
        const bool writes = (worker + i) % 3 == 0;
        const uint32_t ticket = it.lock().draw();
        while (!it.lock().enter(ticket, writes)) std::this_thread::yield();
        const long before = value;
        if (writes) value = before + 1;
        if (!writes && value != before) __atomic_add_fetch(&seen_changing, 1, __ATOMIC_RELAXED);
        it.lock().leave(writes);
      }
    });
  }
  for (std::thread& worker : all) worker.join();
  long writers = 0;
  for (int worker = 0; worker < 4; ++worker)
    for (int i = 0; i < 500; ++i) writers += (worker + i) % 3 == 0;
  EXPECT_EQ(value, writers);
  EXPECT_EQ(seen_changing, 0);
}

TEST(FairLock, that_is_damaged_is_found) {
  const uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << std::endl;
  std::mt19937_64 random(seed);
  int found = 0, lost = 0;
  for (int i = 0; i < 2000; ++i) {
    Locked it;
    for (uint64_t before = 1 + random() % 3; before > 0; --before) it.lock().draw();
    const uint32_t ticket = it.lock().draw();
    EXPECT_FALSE(it.lock().is_damaged(ticket)) << "others are before it";
    auto* words = reinterpret_cast<uint32_t*>(it.memory);  // next, for readers, for writers
    words[1 + random() % 2] = static_cast<uint32_t>(random());
    const bool enters = it.lock().enter(ticket, random() % 2);
    found += !enters && it.lock().is_damaged(ticket);
    lost += !enters && !it.lock().is_damaged(ticket);
  }
  EXPECT_GT(found, 1900) << "seed " << seed;
  EXPECT_LT(lost, 60) << "seed " << seed;
}

TEST(AccumulateLock, of_a_process_that_cannot_be_is_found) {
  Locked it;
  rma::DeadOwnerDetector detector;
  for (uint64_t holder : {uint64_t{1} << 31, uint64_t{1} << 32, UINT64_MAX}) {
    std::memcpy(static_cast<void*>(&it.words().accumulate_lock), &holder, sizeof holder);
    EXPECT_TRUE(detector.owner_died(it.words().accumulate_lock)) << holder;
  }
}

TEST(AccumulateLock, has_one_holder) {
  Locked it;
  rma::AccumulateLock& accumulate_lock = it.words().accumulate_lock;
  EXPECT_TRUE(accumulate_lock.take(7));
  EXPECT_FALSE(accumulate_lock.take(8));
  EXPECT_EQ(accumulate_lock.holder(), 7u);
  accumulate_lock.give_back();
  EXPECT_TRUE(accumulate_lock.take(8));
}

// Whatever range of whatever layout is asked for, the target finds the same bytes.
// The word lies in memory that processes share, and is given back by nobody.
TEST(AccumulateLock, of_a_dead_process_is_found_out) {
  void* shared =
      mmap(nullptr, sizeof(rma::AccumulateLock), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto& accumulate_lock = *static_cast<rma::AccumulateLock*>(shared);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t holder = fork();
  if (holder == 0) {
    accumulate_lock.take(rma::DeadOwnerDetector::own_id());
    char told;
    close(ends[1]);
    _exit(read(ends[0], &told, 1) < 0);
  }
  close(ends[0]);
  while (accumulate_lock.holder() == 0) std::this_thread::yield();
  rma::DeadOwnerDetector detector;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1200))
    ASSERT_FALSE(detector.owner_died(accumulate_lock)) << "it lives";
  close(ends[1]);
  ASSERT_EQ(waitpid(holder, nullptr, 0), holder);
  while (!detector.owner_died(accumulate_lock)) std::this_thread::yield();
  EXPECT_FALSE(accumulate_lock.take(1)) << "what it has changed is unknown";
  munmap(shared, sizeof(rma::AccumulateLock));
}

TEST(Requests, name_the_bytes_of_any_range_of_a_layout) {
  std::vector<unsigned char> window(20000);
  std::iota(window.begin(), window.end(), 0);
  const Tree column = Tree::of_bytes(8).repeated(100, 40),
             pieces = Tree::sequence({Tree::of_bytes(3).shifted(500), Tree::of_bytes(16).shifted(0),
                                      Tree::of_bytes(5).repeated(3, 9).shifted(90)});
  std::mt19937 random(5);
  for (const Tree& tree : {Tree::of_bytes(4000), column, pieces}) {
    const auto plan = packing::Plan::make(tree, 600);
    ASSERT_TRUE(plan);
    const uint64_t count = tree == column ? 1 : 4;
    const packing::View here = plan->view(window.data() + 64, count),
                        there = plan->view(reinterpret_cast<void*>(64), count);
    for (int i = 0; i < 200; ++i) {
      const uint64_t at = random() % here.bytes(), bytes = 1 + random() % (here.bytes() - at);
      rma::Header header;
      header.first = static_cast<int64_t>(reinterpret_cast<uintptr_t>(there.address()));
      const rma::Message message = rma::make_request(header, there, at, bytes, 0);
      std::vector<unsigned char> wanted(bytes), found(bytes);
      packing::move_on_host({wanted.data(), bytes}, 0, here, at, bytes);
      packing::move_on_host({found.data(), bytes}, 0,
                            rma::layout_at(reinterpret_cast<char*>(window.data()), message),
                            message.header().at, bytes);
      ASSERT_EQ(found, wanted) << bytes << " bytes from " << at;
    }
  }
}

TEST(Requests, that_are_damaged_are_found_whatever_they_say) {
  constexpr uint64_t seed = 20240608;
  constexpr int64_t window = 4096;
  std::mt19937_64 random(seed);
  auto number = [&]() -> uint64_t {
    constexpr uint64_t edges[] = {0, 1, 8, 64, 4096, UINT32_MAX, INT64_MAX, 1ull << 63, UINT64_MAX};
    if (random() % 2) return random() % 64;
    return random() % 2 ? edges[random() % std::size(edges)] : random() >> (random() % 64);
  };
  int sound = 0;
  for (int i = 0; i < 200'000; ++i) {
    rma::Message message(number() % 512);
    if (message.size >= sizeof(rma::Header)) {
      rma::Header& header = *new (message.memory.data()) rma::Header;
      header.kind = static_cast<rma::Request>(random() % 3);
      header.bytes = number();
      header.first = static_cast<int64_t>(number());
      header.high = window;
      header.at = number();
      header.blocks = random() % 2 ? 0 : static_cast<uint32_t>(number());
      header.shape.piece = number();
      header.shape.level_count = static_cast<uint32_t>(number() % 9);
      for (kernels::Level& level : header.shape.levels) level = {number(), static_cast<int64_t>(number())};
      const uint64_t room = (message.size - sizeof(rma::Header)) / sizeof(kernels::ListedBlock);
      for (uint64_t block = 0; block < std::min<uint64_t>(header.blocks, room); ++block)
        message.blocks()[block] = {static_cast<int64_t>(number()), block * 8};
    }
    if (!rma::is_sound(message)) continue;
    ++sound;
    const rma::Header& header = message.header();
    ASSERT_LE(sizeof(rma::Header) + header.blocks * sizeof(kernels::ListedBlock), message.size)
        << "seed " << seed;
    const packing::View view = rma::layout_at(nullptr, message);
    // Pieces may lie on each other, and be more than can be counted.
    for (uint64_t done = 0, runs = 0; done < header.bytes && runs < 100; ++runs) {
      const auto run = view.run_at(header.at + done);
      const auto at = static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.address())) + run.offset;
      const uint64_t bytes = std::min(run.bytes, header.bytes - done);
      ASSERT_TRUE(at >= 0 && at + static_cast<int64_t>(bytes) <= window) << "seed " << seed;
      done += bytes;
    }
  }
  EXPECT_GT(sound, 100) << "too few of them are sound to prove anything";
}
