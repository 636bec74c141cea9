// SPDX-License-Identifier: Apache-2.0
//
// The receiver's half of a stream (see network_send.h): receives its chunks and brings them to the user's
// buffer. Host messages and copies into device memory overlap; into host memory the chunks land where they
// belong. A message that is too long, or whose chunks cannot be copied, is received all the same and
// forgotten, so that its sender gets rid of it. Belongs to one thread at a time (the engine's lock).

#pragma once

#include <deque>

#include "base/shortage.h"
#include "device/runtime.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/network/network.h"
#include "p2p/rts_header.h"

namespace fairlead::mpi {

class PipelinedReceive {
 public:
  // `to` has room for `capacity` bytes; `device` is its device, -1 for host memory, which has no gaps.
  PipelinedReceive(const p2p::RtsHeader& rts, const datatype::View& to, uint64_t capacity, int device);

  // none: arrived, or truncated; not_ready; failed: the bytes cannot be had.
  device::Error advance();
  // The next advance() posts host receives for all that is left, so that the host MPI alone can move it (M6).
  void quiesce() { unlimited_ = true; }

  uint64_t bytes() const { return rts_.bytes; }
  bool truncated() const { return rts_.bytes > capacity_; }

 private:
  // Of a buffer without gaps.
  char* place(uint64_t chunk) const {
    return static_cast<char*>(to_.address()) + chunk * rts_.chunk_bytes;
  }
  bool lands_in_place() const { return device_ < 0 && !truncated(); }
  bool post_next();
  bool next_has_arrived();
  bool first_is_copied();
  void lose(const char* what);

  p2p::RtsHeader rts_;
  datatype::View to_;
  uint64_t capacity_;
  int device_;
  network::Turn turn_;
  uint64_t total_;  // chunks; the counts below never fall, and each is at most the one before
  uint64_t posted_ = 0, arrived_ = 0, copied_ = 0;
  std::deque<network::Chunk> chunks_;  // from copied_ to posted_
  bool unlimited_ = false;             // chunks on their way
  bool lost_ = false;
  Shortage shortage_;
};

}  // namespace fairlead::mpi
