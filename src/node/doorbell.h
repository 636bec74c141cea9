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

class Doorbell {
 public:
  uint32_t rings() const { return rings_.load(); }
  // Sleeps until the next ring after `seen`, or for so long.
  void wait(uint32_t seen, std::chrono::nanoseconds longest);
  // By threads of the owner's process.
  void ring();
  // By other ranks, after they have sent a message: costs a load unless the owner listens.
  void ring_if_heard() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (listens_.load(std::memory_order_relaxed)) ring();
  }
  // Does the owner want to know of messages? Only while its program does not poll for them itself.
  void listen(bool listens) {
    if (listens_.load(std::memory_order_relaxed) == listens) return;
    listens_.store(listens);
  }

 private:
  std::atomic<uint32_t> rings_, sleeps_, listens_;
};

}  // namespace fairlead::node
