// SPDX-License-Identifier: Apache-2.0
//
// Where descriptors must not meet. Descriptors of device messages land where the user wants the bytes, in
// host memory. MPI forbids two receives under way into one buffer (MPI 4.1, 3.7.2), and benchmarks post
// windows of them all the same, since the bytes do not matter. A descriptor does: one that is overwritten
// before it was looked at is a message lost. So receives into a place that is taken land elsewhere, once
// device messages are about, and leave the place alone while another one may still land there.
//
// While nobody on the node has sent from device memory, they land in the user's buffer, at the host MPI's
// speed, and the rank says so in its block: whoever sends from device memory then sends whole messages to it.

#pragma once

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// Takes the place at an address for as long as it lives. Any thread.
class ReceiveClaim {
 public:
  ReceiveClaim() = default;
  // For a receive of up to `bytes` from this rank of the communicator, or from any.
  ReceiveClaim(const void* address, MPI_Count bytes, int source, MPI_Comm comm);
  ~ReceiveClaim() { give_back(); }
  ReceiveClaim(const ReceiveClaim&) = delete;
  ReceiveClaim& operator=(ReceiveClaim&& other) noexcept;

  // Is another receive under way there, and could either message be a descriptor? Then this one lands
  // elsewhere.
  bool rts_may_collide() const { return may_collide_; }
  // Of one that landed elsewhere: may the other one's message still land there? Once false it stays so.
  bool is_anothers() const;
  void give_back();

 private:
  struct Receives;
  Receives* receives_ = nullptr;
  bool claims_counted_ = false;  // this rank's block counts it
  bool may_collide_ = false;
};

// Before a descriptor is sent inside the node. False: it could be overwritten where it lands.
bool may_send_rts(int node_rank);

}  // namespace fairlead::mpi
