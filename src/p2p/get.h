// SPDX-License-Identifier: Apache-2.0
//
// The receiver's half of a device message inside a node: a rendezvous get. It locates the rendezvous that an
// RTS header names and copies the bytes to the user's buffer: by a peer copy where that works, otherwise
// through the sender's staging memory. Belongs to one thread at a time (the engine's lock).

#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/memory/host_buffer.h"
#include "base/rate_limit.h"
#include "base/report_timer.h"
#include "device/copies/small_copy.h"
#include "node/node.h"
#include "observe/statistics.h"
#include "p2p/posted_buffer.h"
#include "p2p/rts_header.h"
#include "packing/move.h"
#include "transport/peer.h"
#include "transport/staged.h"

namespace fairlead::p2p {

class RendezvousGet {
 public:
  // `to` has room for `capacity` bytes. `device` is the device of `to`, or -1 for host memory, which has no
  // gaps. A longer message is not received at all, but its sender completes. `posted`: the buffer, if it was
  // offered to the sender, which may write the message to it.
  RendezvousGet(node::Node& node, const RtsHeader& rts, const packing::View& to, uint64_t capacity,
                int device, std::unique_ptr<PostedBuffer> posted = nullptr);

  // none: received, or truncated; not_ready; failed: the bytes cannot be fetched.
  device::Error advance();
  // Waits for copies that are in progress and do not depend on the sender (before this rank stops polling).
  void quiesce();

  // The sender has failed, or, if it lives, the communicator was revoked: the message is lost. False while a
  // GPU, or a sender that lives, writes to the buffer; the get goes on then.
  bool abandon(bool sender_lives);

  uint64_t bytes() const { return rts_.bytes; }
  bool truncated() const { return rts_.bytes > capacity_; }
  Traffic path() const { return path_; }  // valid when the get is over
  // The sender's GPU writes the message.
  bool left_to_others() const { return step_ == Step::filling; }

 private:
  device::Error step();
  device::Error claim(node::RendezvousState from);
  node::Reason find(const node::RemoteMemory& source, const kernels::StridedShape& shape, int64_t first);
  node::Reason find_own();
  device::Error fetch();
  device::Error pass_piece();
  bool kernels_reach_both() const;
  device::Error cannot_copy();
  device::Error refused(node::Reason reason);
  device::Error insist();
  device::Error damaged();
  void reconsider();
  void report_stall();
  device::Error over(device::Error error);
  device::Error close(device::Error error);

  node::Node& node_;
  RtsHeader rts_;
  node::Rendezvous& rendezvous_;
  int owner_device_ = -1;  // device that holds the bytes, as the sender numbers its devices
  packing::View to_;
  uint64_t capacity_;
  int device_;
  enum class Step { looking, filling, copying, passing, refused, pipelining, over } step_ = Step::looking;
  device::Error result_ = device::Error::none;
  Traffic path_ = Traffic::peer;
  std::unique_ptr<PostedBuffer> posted_;
  device::MappedMemory mapped_;  // declared before copy_: a copy ends before its mapping is closed
  packing::View from_;           // the sender's bytes, as mapped in this process
  device::Slot pinned_;          // target of the copy, if it is not the user's buffer
  HostBuffer between_;           // for a message that is copied in two steps
  uint64_t passed_ = 0;          // bytes of it that have arrived
  packing::Move copy_;
  int copying_device_ = -1;
  std::chrono::steady_clock::time_point insisting_since_{}, insisted_{};
  std::optional<transport::StagedReceiver> stream_;
  RareLook rare_look_;
  ReportTimer report_timer_;
  uint64_t chunks_reported_ = 0;
};

}  // namespace fairlead::p2p
