// SPDX-License-Identifier: Apache-2.0
//
// The sender's half of a device message inside a node: an offer in shared memory that the receiver named by
// the descriptor takes up. Until the receiver has claimed it, the sender may take the bytes away into a
// buffer of its own (buffer()), so that a late receiver does not hold up the send.
//
// An offer lives on after the send completed, until the receiver is done with it: the owner keeps it and
// calls advance() until finished(). Belongs to one thread at a time (the engine's lock).

#pragma once

#include <memory>
#include <optional>

#include "base/statistics.h"
#include "datatype/plan.h"
#include "node/node.h"
#include "p2p/rts_header.h"
#include "transport/staged.h"

namespace fairlead::p2p {

using transport::Need;

// The bytes of a message in device memory, and the memory that they lie in, gaps between them included.
struct Source {
  datatype::View view;
  uint64_t bytes;
  const void* span;
  uint64_t span_bytes;
};

class RendezvousSend {
 public:
  // Offers a message to `receiver` (a node rank). Null when all offers of this rank are in use, the memory
  // belongs to no device, or must be staged and there is no memory for that: the message must travel plain
  // then.
  static std::unique_ptr<RendezvousSend> open(node::Node& node, int receiver, const Source& source,
                                         const device::Allocation& allocation);
  ~RendezvousSend();

  const RtsHeader& rts() const { return rts_; }
  uint64_t bytes() const { return bytes_; }
  int receiver() const { return receiver_; }
  // How the bytes went, as far as the sender knows by now.
  Traffic path() const { return path_; }

  void advance();
  // The user's buffer may be reused: its bytes have arrived or lie in a buffer of ours.
  bool buffer_free() const;
  // The receiver is done and the offer is free again.
  bool finished() const { return finished_; }
  bool failed() const { return stream_ && stream_->failed(); }
  // The receiver knows of the message from a probe only: a synchronous send is not matched by that.
  bool matched_by_probe() const;
  bool receiver_blocked() const { return node_.block(receiver_).blocked_in_host.load(std::memory_order_acquire) != 0; }

  // A receive too short for a descriptor may have met this one: nobody will claim the offer.
  bool receiver_failed() const { return node_.block(receiver_).failed_receives.load() != failures_seen_; }

  // Takes the bytes away from the user's buffer, unless the receiver is fetching them from there now.
  void buffer(Need need);
  // Somebody must be made independent of this rank, and there is no memory for that now.
  bool short_of_memory() const { return stream_ && stream_->short_of_memory(); }
  // Makes the receiver independent of this rank's progress (M6). Waits for no other process.
  void flush();

 private:
  RendezvousSend(node::Node& node, int index, int receiver, const Source& source, int device,
            std::optional<Fallback> unreachable);
  void stream();
  void leave_device();
  void close();
  bool proven() const;

  node::Node& node_;
  int index_, receiver_;
  node::Rendezvous* slot_;
  datatype::View view_;  // where the bytes are now: the user's buffer or ours
  uint64_t bytes_;
  int device_;
  bool exportable_;
  void* pooled_ = nullptr;
  bool finished_ = false;
  Traffic path_ = Traffic::peer;
  uint32_t failures_seen_;
  std::unique_ptr<transport::StagedSender> stream_;
  RtsHeader rts_;
};

// Offers of this rank that are in use, for leak tests.
int rendezvous_in_use();

}  // namespace fairlead::p2p
