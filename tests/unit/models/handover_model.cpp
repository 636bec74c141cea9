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
  std::atomic<unsigned> count, arrived;
  explicit Partition(size_t shares) : shares(shares) {}
};
struct Message {
  std::list<Partition> partitions;
  std::atomic<unsigned> count, sent, held = 1;
  Message(size_t partitions_in_it, size_t shares) {
    for (size_t i = 0; i < partitions_in_it; ++i) partitions.emplace_back(shares);
  }
  Partition& first() { return partitions.front(); }
  Partition& last() { return partitions.back(); }
};

unsigned replace_none(std::atomic<unsigned>& word, unsigned value) {
  unsigned old = none;
  word.compare_exchange_strong(old, value, relaxed);
  return old;
}
void end_share(Message& message, Partition& partition, Share& share) {
  share.word.store(none, relaxed);
  std::atomic_thread_fence(release);
  if (partition.count.fetch_add(1, relaxed) != partition.shares.size() - 1) return;
  partition.count.store(0, relaxed);
  std::atomic_thread_fence(acq_rel);
  if (message.count.fetch_add(1, relaxed) == message.partitions.size() - 1) {
    message.count.store(0, relaxed);
    std::atomic_thread_fence(acq_rel);
    message.sent.store(1, relaxed);
  }
  partition.arrived.store(1, relaxed);
}
// A block has moved all of a message of one partition.
void end_message(Message& message, Partition& partition) {
  for (Share& share : partition.shares) share.word.store(none, relaxed);
  std::atomic_thread_fence(release);
  message.sent.store(1, relaxed);
  partition.arrived.store(1, relaxed);
}
void give(Message& message, Partition& partition, Share& share, int value) {
  if (share.word.load(relaxed) == none) {
    share.bounce.write(value);
    std::atomic_thread_fence(release);
    if (replace_none(share.word, full) == none) return;
  }
  std::atomic_thread_fence(acquire);
  share.buffer.write(value);
  end_share(message, partition, share);
}
void open(Message& message, Partition& partition, Share& share) {
  if (share.word.load(relaxed) == none) {
    std::atomic_thread_fence(release);
    if (replace_none(share.word, opened) == none) return;
  }
  std::atomic_thread_fence(acquire);
  share.buffer.write(share.bounce.read());
  end_share(message, partition, share);
}

// What a stream does between two kernels, which it orders.
void wait_and_clear(std::atomic<unsigned>& word) {
  Machine::only().await([&] { return word.load(acquire) == 1; });
  word.store(0, relaxed);
}
// All shares of a message, one after the other.
template <class Do>
void for_each_share(Message& message, Do what) {
  int number = 0;
  for (Partition& partition : message.partitions)
    for (Share& share : partition.shares) what(partition, share, number++);
}
void send(Message& message, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    for_each_share(message, [&](Partition& partition, Share& share, int number) {
      give(message, partition, share, round * 10 + number);
    });
    wait_and_clear(message.sent);
  }
}
void receive(Message& message, int rounds) {
  for (int round = 1; round <= rounds; ++round) {
    for_each_share(message,
                   [&](Partition& partition, Share& share, int) { open(message, partition, share); });
    for (Partition& partition : message.partitions) wait_and_clear(partition.arrived);
    for_each_share(message, [&](Partition&, Share& share, int number) {
      require(share.buffer.read() == round * 10 + number, "other bytes arrive");
    });
  }
}

Machine::Program between_two(size_t partitions, size_t shares, int rounds) {
  return [=](Machine::Run& run) {
    auto message = std::make_shared<Message>(partitions, shares);
    run.thread([=] { send(*message, rounds); });
    run.thread([=] { receive(*message, rounds); });
    run.in_the_end = [=] {
      for_each_share(*message, [](Partition& partition, Share& share, int) {
        require(share.word.load() == none && !partition.count.load() && !partition.arrived.load(),
                "a word is left behind");
      });
      require(!message->count.load() && !message->sent.load(), "a word is left behind");
    };
  };
}
// Threads of one kernel of the sender, each with its share.
void by_two_threads(Machine::Run& run) {
  auto message = std::make_shared<Message>(1, 2);
  run.thread([=] { give(*message, message->first(), message->first().shares[0], 10); });
  run.thread([=] {
    give(*message, message->first(), message->first().shares[1], 11);
    wait_and_clear(message->sent);
  });
  run.thread([=] { receive(*message, 1); });
}
// Of the receiver, each with a partition; the sender begins another round.
void to_two_threads(Machine::Run& run) {
  auto message = std::make_shared<Message>(2, 1);
  run.thread([=] {
    send(*message, 1);
    give(*message, message->first(), message->first().shares[0], 20);
  });
  for (Partition* partition : {&message->first(), &message->last()})
    run.thread([=] { open(*message, *partition, partition->shares[0]); });
}

// One partition of two has arrived, whose shares came from two threads.
void one_of_two(Machine::Run& run) {
  auto message = std::make_shared<Message>(2, 2);
  Partition& partition = message->first();
  for (int i : {0, 1})
    run.thread([=, &partition] { give(*message, partition, partition.shares[static_cast<size_t>(i)], i); });
  run.thread([=, &partition] {
    for (Share& share : partition.shares) open(*message, partition, share);
    wait_and_clear(partition.arrived);
    for (int i : {0, 1})
      require(partition.shares[static_cast<size_t>(i)].buffer.read() == i, "other bytes arrive");
  });
}
// The receiver has opened both shares, and a block of the sender finds that; else its threads are on their
// own.
void by_a_block(Machine::Run& run) {
  auto message = std::make_shared<Message>(1, 2);
  run.thread([=] {
    Partition& partition = message->first();
    const bool open = std::ranges::all_of(partition.shares,
                                          [](Share& share) { return share.word.load(relaxed) == opened; });
    if (open) std::atomic_thread_fence(acquire);
    for (int i : {0, 1}) {
      Share& share = partition.shares[static_cast<size_t>(i)];
      if (open)
        share.buffer.write(10 + i);
      else
        give(*message, partition, share, 10 + i);
    }
    if (open) end_message(*message, partition);
    wait_and_clear(message->sent);
  });
  run.thread([=] {
    for (Share& share : message->first().shares) (void)share.buffer.read();
    receive(*message, 1);
  });
  run.in_the_end = [=] {
    for (Share& share : message->first().shares) require(share.word.load() == none, "a word is left behind");
  };
}
// The stream's 0 is on its way while the kernel behind it begins, which looks for it, since the sender's next
// 1 must not come first.
void cleared_meanwhile(Machine::Run& run) {
  auto message = std::make_shared<Message>(1, 1);
  auto begun = std::make_shared<std::atomic<unsigned>>();
  Partition& partition = message->first();
  run.thread([=, &partition] {
    send(*message, 1);
    give(*message, partition, partition.shares[0], 20);
  });
  run.thread([=, &partition] {
    open(*message, partition, partition.shares[0]);
    Machine::only().await([&] { return begun->load(acquire) == 1; });
    Machine::only().await([&] { return partition.arrived.load(relaxed) == 0; });
    open(*message, partition, partition.shares[0]);
  });
  run.thread([=, &partition] {
    Machine::only().await([&] { return partition.arrived.load(acquire) == 1; });
    begun->store(1, release);
    partition.arrived.store(0, relaxed);
  });
  run.in_the_end = [=, &partition] { require(partition.arrived.load() == 1, "an arrival is lost"); };
}
// A receiver that has seen all uses the words again as soon as the sender no longer holds them.
void another_use(Machine::Run& run) {
  auto message = std::make_shared<Message>(1, 1);
  auto used = std::make_shared<models::Plain<int>>();
  run.thread([=] {
    give(*message, message->first(), message->first().shares[0], 10);
    Machine::only().await([&] { return message->sent.load(relaxed) == 1; });
    used->write(1);
    message->held.store(0, release);
  });
  run.thread([=] {
    receive(*message, 1);
    if (message->held.load(acquire) == 0) used->write(2);
  });
}

TEST(Models, handover) {
  models::examine({between_two(1, 1, 2), between_two(1, 2, 1), by_two_threads, to_two_threads, one_of_two,
                   by_a_block, cleared_meanwhile, another_use});
}

}  // namespace
}  // namespace modelled
