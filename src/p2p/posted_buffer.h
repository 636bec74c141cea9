// SPDX-License-Identifier: Apache-2.0
//
// A rendezvous put: the buffer of a receive in device memory is offered to the sender of the one message that
// the host MPI will match with this receive (src/mpi/p2p/match_order.h knows which that is). If the sender
// finds the offer, its GPU writes the bytes to the buffer and then stores a word in memory of the node, so
// that no CPU of either rank need take part any more. The message's RTS header still passes through the host
// MPI, which matches it as ever. Otherwise the receiver takes the offer back when the RTS header arrives, and
// gets the bytes (get.h).
//
// Belongs to one thread at a time (the engine's lock).

#pragma once

#include <cstdint>
#include <memory>

#include "device/copies/copy.h"
#include "node/node.h"

namespace fairlead::p2p {

// One of the messages that match in the order of their numbers; the same on both sides.
struct MessageKey {
  uint64_t sequence = 0, number = 0;
  // 0: it is not known which message this is.
  explicit operator bool() const { return number != 0; }
};

// Counts the receives from one sender that are in progress at once. Windows of many messages are better
// started in few driver calls by their receiver, so their buffers are not offered.
class ReceiveInProgress {
 public:
  ReceiveInProgress() = default;
  explicit ReceiveInProgress(int sender);
  ReceiveInProgress& operator=(ReceiveInProgress&& other) noexcept;
  ~ReceiveInProgress() { end(); }
  // Is it one of few, also among the last ones that were in progress at once?
  bool one_of_few() const;

 private:
  void end();
  int sender_ = -1;
};

// The receiver's side.
class PostedBuffer {
 public:
  // Offers the buffer to `sender`, a node rank, for one message. Null if that rank cannot map the memory, or
  // if mapping is not worth its time yet, or if no more buffers can be offered.
  static std::unique_ptr<PostedBuffer> post(node::Node& node, int sender, const MessageKey& key,
                                            const device::Allocation& allocation, void* address,
                                            uint64_t bytes);
  // Before a receive is cancelled: takes back what is offered for this message and for later ones of its
  // sequence. False: one of them has been sent, so the receive has been matched.
  static bool withdraw_from(node::Node& node, const MessageKey& first);
  ~PostedBuffer();
  PostedBuffer(const PostedBuffer&) = delete;
  PostedBuffer& operator=(const PostedBuffer&) = delete;

  uint32_t index() const { return index_; }
  // False: the sender has claimed it.
  bool withdraw();
  // none: the sender's GPU has written the message; not_ready; failed: another process has damaged the word.
  device::Error state() const;
  // The sender has claimed it and does not write to it any more. Otherwise a claimed buffer that is not full
  // is never offered again.
  void give_up() { given_up_ = true; }

 private:
  static std::atomic<uint64_t>& offer_at(node::RankBlock& block, uint32_t index) {
    return block.posted_for[index / node::posted_per_set][index % node::posted_per_set];
  }
  PostedBuffer(node::Node& node, uint32_t index, uint64_t name, const uint32_t* word, uint32_t turn)
      : offer_(offer_at(node.mine(), index)), index_(index), name_(name), word_(word), turn_(turn) {}

  std::atomic<uint64_t>& offer_;
  const uint32_t index_;
  const uint64_t name_;  // in offer_, until it is claimed or withdrawn
  const uint32_t* const word_;
  const uint32_t turn_;
  bool given_up_ = false;
};

// The sender's side: a message on its way into a posted buffer.
class RendezvousPut {
 public:
  // Null if `receiver`, a node rank, offers no buffer for the message, is about to take it itself,
  // or if the GPU cannot reach the buffer.
  static std::unique_ptr<RendezvousPut> start(node::Node& node, int receiver, const MessageKey& key,
                                              const void* from, uint64_t bytes, int device);
  // The index of the buffer in the receiver's block.
  uint32_t index() const { return index_; }
  device::Error poll();
  // Has the receiver been told that the bytes are there? The CPU can do so, too, but no longer once the
  // receiver has used the buffer again.
  bool told() const;
  void signal();

 private:
  uint32_t index_ = 0, turn_ = 0;
  uint32_t* word_ = nullptr;
  device::MappedMemory mapped_;  // declared before copy_: a copy ends before its mapping is closed
  device::Copy copy_;
};

}  // namespace fairlead::p2p
