// SPDX-License-Identifier: Apache-2.0
//
// Keeps RTS headers from overwriting each other. The host MPI receives the RTS header of a device message
// into the user's receive buffer, in host memory. MPI forbids two receives in flight into one buffer (MPI
// 4.1, 3.7.2), but benchmarks post windows of such receives, because they ignore the bytes. An RTS header
// matters: if it is overwritten before Fairlead reads it, its message is lost. So each receive claims its
// buffer. Once any rank of the node has sent an RTS header, a receive whose buffer is already claimed uses a
// bounce buffer, and does not touch the user's buffer while another receive may still write there.
//
// Until then, such a receive uses the user's buffer, at the host MPI's speed, and this rank counts it in its
// block of the shared segment. A rank that sends from device memory reads that count and sends whole messages
// while it is not zero.

#pragma once

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// Claims the receive buffer at an address as long as it lives. Thread-safe.
class ReceiveClaim {
 public:
  ReceiveClaim() = default;
  // For a receive of up to `bytes` bytes from this rank of the communicator, or from MPI_ANY_SOURCE.
  ReceiveClaim(const void* address, MPI_Count bytes, int source, MPI_Comm comm);
  ~ReceiveClaim() { give_back(); }
  ReceiveClaim(const ReceiveClaim&) = delete;
  ReceiveClaim& operator=(ReceiveClaim&& other) noexcept;

  // True if another receive into this buffer is in flight and either message could be an RTS header. The
  // caller then receives into a bounce buffer.
  bool rts_may_collide() const { return may_collide_; }
  // For a receive that uses a bounce buffer: true while another receive may still write to the user's buffer.
  // Once false, it stays false.
  bool is_anothers() const;
  void give_back();

 private:
  struct Receives;
  Receives* receives_ = nullptr;
  bool claims_counted_ = false;  // included in claimed_receives of this rank's block
  bool may_collide_ = false;
};

// Call before sending an RTS header to a rank of this node. If false, another message could overwrite the
// header in the receive buffer, and the caller must send the whole message instead.
bool may_send_rts(int node_rank);

}  // namespace fairlead::mpi
