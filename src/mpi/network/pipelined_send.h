// SPDX-License-Identifier: Apache-2.0
//
// The sender's half of a larger device message between nodes: a stream. The user's host message carries a
// descriptor; the bytes follow as chunks, each a host message to the receiver on network::communicator(), all
// with the tag that the descriptor names. Copies out of device memory and host messages overlap, with at most
// FAIRLEAD_NETWORK_DEPTH chunks on their way.
//
// Chunks are sent synchronously: one that is sent has been received, so its tag is free again, and a receiver
// that takes nothing is noticed. Its sender, and one that stops making progress, moves all that is left to
// host memory (invariants M5, M6). Belongs to one thread at a time (the engine's lock).

#pragma once

#include <deque>

#include "base/shortage.h"
#include "mpi/network/network.h"
#include "p2p/rts_header.h"

namespace fairlead::mpi {

class PipelinedSend {
 public:
  // `bytes` in memory of `device`, for this rank of MPI_COMM_WORLD.
  PipelinedSend(int receiver, const datatype::View& from, uint64_t bytes, int device);
  ~PipelinedSend();

  const p2p::RtsHeader& rts() const { return rts_; }

  void advance();
  // The send has been waited for since then.
  void flush_if_late(network::Time waiting_since);
  // Copies the rest to host memory and posts it, so that the host MPI alone can move it.
  void flush_to_host();

  // It must spill, and there is no memory now.
  bool short_of_memory() const { return flushes_ && shortage_.exists() && !failed_ && !read_out(); }

  // All bytes have left the user's buffer.
  bool read_out() const { return posted_ == total_; }
  // The receiver has all chunks.
  bool finished() const { return sent_ == total_; }
  // The buffer could not be read; the receiver is told.
  bool failed() const { return failed_; }

 private:
  bool start_next();
  bool post_next();
  bool first_is_sent();
  void fail(const char* what, const char* why);

  p2p::RtsHeader rts_;
  int receiver_, device_;
  network::Turn turn_;
  datatype::View from_;
  uint64_t total_;  // chunks; the counts below never fall, and each is at most the one before
  uint64_t started_ = 0, posted_ = 0, sent_ = 0;
  std::deque<network::Chunk> chunks_;  // from sent_ to started_
  bool unlimited_ = false;             // chunks on their way
  bool flushes_ = false;                // without waiting for its receiver
  bool failed_ = false;
  Shortage shortage_;
};

}  // namespace fairlead::mpi
