// SPDX-License-Identifier: Apache-2.0
//
// The sender's half of a pipelined transfer: a larger device message between nodes. The user's host message
// carries an RTS header. The bytes follow as chunks, each a host message to the receiver on
// network::communicator(), with the tag that the RTS header names. Copies out of device memory and host
// messages overlap, with at most FAIRLEAD_NETWORK_DEPTH chunks in flight.
//
// Chunks are sent synchronously. So a chunk whose send is complete has been received, its tag is free again,
// and the sender notices a receiver that takes nothing. If the receiver takes nothing, or this rank stops
// making progress, the sender moves the rest of the message to host memory (invariants M5, M6). Inside an
// NVLink domain, the receiver may copy the bytes itself (fabric.h). The engine's lock admits one thread at a
// time.

#pragma once

#include <deque>
#include <optional>

#include "base/shortage.h"
#include "mpi/network/fabric.h"
#include "mpi/network/network.h"
#include "observe/statistics.h"
#include "p2p/rts_header.h"

namespace fairlead::mpi {

class PipelinedSend {
 public:
  // Sends `bytes` bytes in this memory to this rank of MPI_COMM_WORLD. `later`: they are there only when
  // advance() is called. Only with `may_offer` may the receiver copy them itself (fabric.h).
  PipelinedSend(int receiver, const packing::View& from, uint64_t bytes, const device::Allocation& memory,
                bool later, bool may_offer);
  ~PipelinedSend();

  const p2p::RtsHeader& rts() const { return rts_; }
  int receiver() const { return receiver_; }

  void advance();
  // Lifts the limit on chunks in flight if the program has waited for the send since then and the receiver
  // has timed out.
  void flush_if_late(network::Time waiting_since);
  // Copies the rest to host memory and posts it, so that the host MPI alone can move it.
  void flush_to_host();

  // Has flush_to_host() done its work? Not if there is no host memory for the rest now, nor, for a short
  // time, while the receiver may be about to copy the bytes.
  bool flushed() const;
  void note_receiver_failed();

  // Nobody reads the user's buffer any more.
  bool read_out() const { return posted_ == total_ && !is_granted(); }
  // A receive has begun to take the message.
  bool taken() const { return sent_ > 0 || is_fetched(); }
  // The receiver has all chunks. Those of what it has fetched it discards in MPI_Finalize.
  bool finished() const { return sent_ == total_ && !is_granted(); }
  // The transfer has failed; the receiver sees it from an empty chunk.
  bool failed() const { return failed_; }
  // Valid when it is finished.
  Traffic path() const { return is_fetched() ? Traffic::peer_between_nodes : Traffic::network; }

 private:
  using Offered = FabricOffer::State;
  bool is_granted() const { return offer_ && offer_->state() == Offered::granted; }
  bool is_fetched() const { return offer_ && offer_->state() == Offered::fetched; }
  bool stages_what_is_granted() const;
  bool start_next();
  bool post_next();
  bool first_is_sent();
  void fail(const char* what, const char* why);

  p2p::RtsHeader rts_;
  int receiver_, device_;
  std::optional<FabricOffer> offer_;
  std::optional<network::Turn> turn_;  // from the first advance() on that may start a chunk
  packing::View from_;
  uint64_t total_;  // in chunks, without those that are no longer needed; the counts below only grow, and
                    // each is at most the one before it
  uint64_t started_ = 0, posted_ = 0, sent_ = 0;
  std::deque<network::Chunk> chunks_;  // from sent_ to started_
  bool unlimited_ = false;             // no limit on chunks in flight
  bool flushes_ = false;               // flush_to_host() was called,
  network::Time flushes_since_{};      // first
  bool failed_ = false;
  Shortage shortage_;
};

}  // namespace fairlead::mpi
