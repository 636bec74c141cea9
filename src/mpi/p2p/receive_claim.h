// SPDX-License-Identifier: Apache-2.0
//
// Keeps RTS headers from overwriting each other. The host MPI receives the RTS header of a device message
// into the user's receive buffer, in host memory. MPI forbids two receives in flight into one buffer (MPI
// 4.1, 3.7.2), but benchmarks post windows of such receives, because they ignore the bytes. An RTS header
// matters: if it is overwritten before Fairlead reads it, its message is lost. So each receive claims its
// buffer. Once RTS headers may come, a receive whose buffer is already claimed uses a bounce buffer, and does
// not touch the user's buffer while another receive may still write there.
//
// Until then, such a receive uses the user's buffer, at the host MPI's speed, and holds RTS headers off
// (mpi/core/forwarded_receives.h).

#pragma once

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// Claims the receive buffer at an address as long as it lives. Thread-safe.
class ReceiveClaim {
 public:
  // Whether the host MPI has this receive already, in the user's buffer, or may still get a bounce buffer.
  enum class Receive { posted, to_be_posted };

  ReceiveClaim() = default;
  // For a receive of up to `bytes` bytes.
  ReceiveClaim(const void* address, MPI_Count bytes, Receive receive);
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
  bool blocks_rts_ = false;  // RTS headers
  bool may_collide_ = false;
};

// Call before sending an RTS header to a rank of this node. If false, a receive of that rank could lose the
// header, and the caller must send the whole message instead.
bool may_send_rts(int node_rank);

}  // namespace fairlead::mpi
