// SPDX-License-Identifier: Apache-2.0
//
// The receiver's half of a pipelined transfer (see pipelined_send.h): receives the chunks and copies them to
// the user's buffer. Host messages overlap with copies into device memory; chunks for host memory are
// received in place. If the message is too long, or its chunks cannot be copied, the chunks are received all
// the same and discarded, so that the sender completes. The engine's lock admits one thread at a time.

#pragma once

#include <deque>
#include <optional>

#include "base/shortage.h"
#include "device/runtime.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/network/fabric.h"
#include "mpi/network/network.h"
#include "observe/statistics.h"
#include "p2p/rts_header.h"

namespace fairlead::mpi {

class PipelinedReceive {
 public:
  // `to` has room for `capacity` bytes; `device` is its device, -1 for host memory, which has no gaps.
  PipelinedReceive(const p2p::RtsHeader& rts, const packing::View& to, uint64_t capacity, int device);

  // Returns none if the message has arrived or is truncated, not_ready, or failed if the bytes cannot be
  // received.
  device::Error advance();
  // The next advance() posts host receives for all that is left, so that the host MPI alone can move it (M6).
  void quiesce() {
    claim_.quiesce();
    unlimited_ = true;
  }

  // The rest of its chunks fails. A copy from its memory ends by itself.
  void note_sender_failed() {
    claim_.withdraw();
    unlimited_ = true;
  }

  Traffic path() const { return path_; }
  uint64_t bytes() const { return rts_.bytes; }
  bool truncated() const { return rts_.bytes > capacity_; }

 private:
  // The address of a chunk in the user's buffer, which has no gaps.
  char* chunk_address(uint64_t chunk) const {
    return static_cast<char*>(to_.address()) + chunk * rts_.chunk_bytes;
  }
  bool receives_in_place() const { return device_ < 0 && !truncated(); }
  void take_turn();
  bool may_post() const;
  bool post_next();
  bool next_has_arrived();
  bool first_is_copied();
  void lose(const char* what);

  p2p::RtsHeader rts_;
  packing::View to_;
  uint64_t capacity_;
  int device_;
  FabricClaim claim_;
  Traffic path_ = Traffic::network;
  std::optional<network::Turn> turn_;  // none before the first bytes can come
  uint64_t total_;  // in chunks; the counts below only grow, and each is at most the one before it
  uint64_t posted_ = 0, arrived_ = 0, copied_ = 0;
  std::deque<network::Chunk> chunks_;  // from copied_ to posted_
  bool unlimited_ = false;             // no limit on chunks in flight
  bool lost_ = false;
  Shortage shortage_;
};

}  // namespace fairlead::mpi
