// SPDX-License-Identifier: Apache-2.0
//
// Pipelined transfers between nodes of one NVLink domain: the receiver maps the sender's memory by a fabric
// handle and copies from there, and no chunks are sent.
//
// An RTS header that names the domain of the sender's device offers the bytes. A receiver whose device is in
// the same domain claims them by a control message. The sender grants them, with the handle, and leaves its
// buffer alone until the receiver answers that it has fetched the bytes, or needs the chunks. The sender may
// withdraw what it has not granted, and send chunks (M5, M6): a receiver that has claimed the bytes finds the
// first of them. A sender that blocks sends chunks of what it has granted as well, and a receiver that finds
// the first of them takes the chunks. The caller holds the engine's lock.

#pragma once

#include "device/ipc_registry.h"
#include "mpi/network/network.h"
#include "p2p/rts_header.h"
#include "packing/move.h"

namespace fairlead::mpi {

// The sender's half.
class FabricOffer {
 public:
  enum class State { none, offered, granted, fetched };

  // Offers nothing if the memory cannot be mapped by other nodes, or was not by this receiver.
  FabricOffer(int receiver, uint32_t tag, const device::Allocation& allocation, const packing::View& from,
              uint64_t bytes);
  ~FabricOffer();
  FabricOffer(const FabricOffer&) = delete;
  FabricOffer& operator=(const FabricOffer&) = delete;

  const device::FabricDomain& domain() const { return domain_; }  // none if nothing is offered
  State state() const { return state_; }
  // From here on the receiver gets no grant.
  void withdraw() {
    if (state_ == State::offered) state_ = State::none;
  }
  void take_answer(network::Control answer);
  void note_receiver_failed();

 private:
  int receiver_;
  uint32_t tag_;
  int device_;
  device::RemoteMemory memory_{};
  device::FabricDomain domain_{};
  State state_ = State::none;
};

// The receiver's half.
class FabricClaim {
 public:
  // Claims what the RTS header offers, or declines it. `to` has room for `capacity` bytes.
  FabricClaim(const p2p::RtsHeader& rts, const packing::View& to, uint64_t capacity, int device);
  ~FabricClaim();
  FabricClaim(const FabricClaim&) = delete;
  FabricClaim& operator=(const FabricClaim&) = delete;

  // none: the bytes have come this way; not_supported: they come as chunks; else not_ready.
  device::Error advance();
  // Takes the claim back, unless the bytes are granted.
  void withdraw();
  // Before this rank stops polling.
  void quiesce();
  void take_grant(const device::RemoteMemory& memory);

 private:
  enum class State { none, claimed, copying, fetched };
  device::Error fail();
  bool chunks_come() const;
  void answer(network::Control answer, State next);

  int sender_, device_;
  uint32_t tag_;
  packing::View to_;
  uint64_t bytes_, id_ = 0;
  State state_ = State::none;
  device::MappedMemory mapped_;  // declared before copy_: a copy ends before its mapping is closed
  packing::Move copy_;
};

namespace network {

void take_fabric_control(int peer, const ControlContent& content);
// Is an answer awaited?
bool awaits_fabric_control();
// Tells those that may have mapped memory which exports to the node have found gone.
void look_for_freed_memory();
void close_fabric();

}  // namespace network
}  // namespace fairlead::mpi
