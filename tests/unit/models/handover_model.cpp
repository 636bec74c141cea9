// SPDX-License-Identifier: Apache-2.0
// The words of a hand-over (kernels/handover/handover.cpp), relaxed and with fences where it has them: each
// share is moved once in each round, by its sender or its receiver, and is in the buffer when it has arrived.

#include <models/modelled.h>

namespace modelled {
namespace {

using models::Machine;
using models::require;

constexpr auto relaxed = std::memory_order_relaxed, acquire = std::memory_order_acquire,
               release = std::memory_order_release, acq_rel = std::memory_order_acq_rel;
constexpr unsigned none = 0, opened = 1, full = 2;

struct Share {
  std::atomic<unsigned> word;
  models::Plain<int> bounce, buffer;
};
struct Partition {
  std::vector<Share> shares;
  std::atomic<unsigned> count, arrived, sent;
  explicit Partition(size_t shares) : shares(shares) {}
};

unsigned replace_none(std::atomic<unsigned>& word, unsigned value) {
  unsigned old = none;
  word.compare_exchange_strong(old, value, relaxed);
  return old;
}
void end_share(Partition& partition, Share& share) {
  share.word.store(none, relaxed);
  std::atomic_thread_fence(release);
  if (partition.count.fetch_add(1, relaxed) != partition.shares.size() - 1) return;
  partition.count.store(0, relaxed);
  partition.sent.store(1, relaxed);
  std::atomic_thread_fence(acq_rel);
  partition.arrived.store(1, relaxed);
}
void give(Partition& partition, Share& share, int value) {
  if (share.word.load(relaxed) == none) {
    share.bounce.write(value);
    std::atomic_thread_fence(release);
    if (replace_none(share.word, full) == none) return;
  }
  std::atomic_thread_fence(acquire);
  share.buffer.write(value);
  end_share(partition, share);
}
void open(Partition& partition, Share& share) {
  if (replace_none(share.word, opened) == none) return;
  std::atomic_thread_fence(acquire);
  share.buffer.write(share.bounce.read());
  end_share(partition, share);
}

// What a stream does between two kernels, which it orders.
void wait_and_clear(std::atomic<unsigned>& word) {
  Machine::only().await([&] { return word.load(acquire) == 1; });
  word.store(0, relaxed);
}
void behind_the_kernel_before() {
  std::atomic_thread_fence(release);
}
void send(Partition& partition, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    behind_the_kernel_before();
    for (size_t i = 0; i < partition.shares.size(); ++i)
      give(partition, partition.shares[i], round * 10 + static_cast<int>(i));
    wait_and_clear(partition.sent);
  }
}
void receive(Partition& partition, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    behind_the_kernel_before();
    for (Share& share : partition.shares) open(partition, share);
    wait_and_clear(partition.arrived);
    for (size_t i = 0; i < partition.shares.size(); ++i)
      require(partition.shares[i].buffer.read() == round * 10 + static_cast<int>(i), "other bytes arrive");
  }
}

Machine::Program between_two(size_t shares, int rounds) {
  return [=](Machine::Run& run) {
    auto partition = std::make_shared<Partition>(shares);
    run.thread([=] { send(*partition, rounds); });
    run.thread([=] { receive(*partition, rounds); });
    run.in_the_end = [=] {
      for (Share& share : partition->shares) require(share.word.load() == none, "a share is left behind");
      require(partition->count.load() == 0 && !partition->sent.load() && !partition->arrived.load(),
              "a word is left behind");
    };
  };
}
// Threads of one kernel, each with its share.
void by_two_threads(Machine::Run& run) {
  auto partition = std::make_shared<Partition>(2);
  run.thread([=] { give(*partition, partition->shares[0], 10); });
  run.thread([=] {
    give(*partition, partition->shares[1], 11);
    wait_and_clear(partition->sent);
  });
  run.thread([=] { receive(*partition, 1); });
}

TEST(Models, handover) {
  models::examine({between_two(1, 2), between_two(2, 1), by_two_threads});
}

}  // namespace
}  // namespace modelled
