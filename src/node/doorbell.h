// SPDX-License-Identifier: Apache-2.0
//
// What a rank's progress thread sleeps on (a futex): in memory of the node, so that other ranks can wake it
// when they have sent it a message. The owner calls wait() from one thread; the other functions may be called
// by any.
//
// Nobody misses a ring: the owner reads rings() before it looks for work, and a wait for a number that has
// changed since returns at once.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace fairlead::node {

// What the owner wants to be told by other ranks: that they have arrived at a collective, or messages, too.
enum class Hears : uint32_t { nothing, arrivals, all };

class Doorbell {
 public:
  uint32_t rings() const { return rings_.load(std::memory_order_acquire); }
  // Sleeps until the next ring after `seen`, or for so long.
  void wait(uint32_t seen, std::chrono::nanoseconds longest);
  // By threads of the owner's process.
  void ring();
  // By other ranks, after they have arrived, or sent a message, and after a sequentially consistent fence.
  // Costs a load unless the owner listens.
  void ring_if_heard(Hears what) {
    if (listens_.load(std::memory_order_relaxed) >= what) ring();
  }
  // The owner listens only while its program does not poll. Who listens looks for work afterwards, and who
  // does not counted it before: what was not seen there rings.
  void listen(Hears what) {
    if (listens_.load() == what) return;
    listens_.store(what, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }

 private:
  std::atomic<uint32_t> rings_, sleeps_;
  std::atomic<Hears> listens_;
};

}  // namespace fairlead::node
