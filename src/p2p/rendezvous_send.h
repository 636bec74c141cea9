// SPDX-License-Identifier: Apache-2.0
//
// The sender's half of a device message inside a node: a rendezvous in shared memory. The RTS header names
// it, and the receiver completes it. Until the receiver has claimed it, the sender may move the bytes to a
// buffer of its own (buffer()), so that a late receiver does not delay the send.
//
// A rendezvous outlives the send until the receiver is done with it: the owner keeps the object after the
// send has completed and calls advance() until finished(). Belongs to one thread at a time (the engine's
// lock).

#pragma once

#include <memory>
#include <optional>

#include "node/node.h"
#include "observe/statistics.h"
#include "p2p/posted_buffer.h"
#include "p2p/rts_header.h"
#include "packing/plan.h"
#include "transport/staged.h"

namespace fairlead::p2p {

using transport::Need;

// The bytes of a message in device memory, and the memory range that contains them, gaps included.
struct Source {
  packing::View view;
  uint64_t bytes;
  const void* span;
  uint64_t span_bytes;
};

class RendezvousSend {
 public:
  // present: the receiver may fetch them. to_come: it waits for make_available(); such a message cannot be
  // staged.
  enum class Bytes { present, to_come };
  // Starts a rendezvous with `receiver` (a node rank). Null if all rendezvous of this rank are in use, if the
  // memory belongs to no device, or if the message must be staged and that is not possible. In these cases
  // the message must be staged through host memory and sent by the host MPI. `key`: of the message, for which
  // the receiver may have posted a buffer (posted_buffer.h).
  static std::unique_ptr<RendezvousSend> open(node::Node& node, int receiver, const Source& source,
                                              const device::Allocation& allocation, Bytes bytes,
                                              const MessageKey& key = {});
  void make_available();
  ~RendezvousSend();

  const RtsHeader& rts() const { return rts_; }
  uint64_t bytes() const { return bytes_; }
  int receiver() const { return receiver_; }
  // The message of this rank that has this rendezvous; null if none has.
  static const RendezvousSend* of_this_rank(uint32_t number);
  // Where its bytes are now, and which device holds them.
  const packing::View& view() const { return view_; }
  int device() const { return device_; }
  // The path of the bytes, as far as the sender can tell.
  Traffic path() const { return path_; }

  void advance();
  // The user's buffer may be reused: its bytes have been received or copied to a buffer of this library.
  bool buffer_free() const;
  // The receiver is done and the rendezvous is free again.
  bool finished() const { return finished_; }
  // What the receiver has done, as far as this rank has taken notice.
  enum class Stage { nothing, claimed, done };
  Stage stage() const { return finished_ ? Stage::done : is_claimed() ? Stage::claimed : Stage::nothing; }
  bool failed() const { return lost_ || (stream_ && stream_->failed()); }
  // This rank writes the bytes to the receiver's buffer, and needs no answer.
  bool puts() const { return puts_; }
  // There is nothing to do here until the GPU has written the message, or the receiver has fetched it.
  bool left_to_others() const { return !finished_ && (put_ || is_claimed()); }
  // The receiver may know the message from a probe only, which does not match a synchronous send.
  bool matched_by_probe() const;
  bool receiver_blocked() const {
    return node_.block(receiver_).blocked_in_host.load(std::memory_order_acquire) != 0;
  }

  // A receive too short for an RTS header may have matched this one: no receive will claim the rendezvous.
  bool receiver_failed() const { return node_.block(receiver_).failed_receives.load() != failures_seen_; }

  // Starts to copy the bytes out of the user's buffer, unless the receiver fetches them from there now. If it
  // is required, they have been copied when this returns, or the receiver has claimed or refused them, or
  // short_of_memory() tells why not.
  void buffer(Need need);
  // flush() or buffer(Need::required) needs host memory, and there is none now.
  bool short_of_memory() const { return !finished_ && stream_ && stream_->short_of_memory(); }
  // Makes the receiver independent of this rank's progress (M6). Waits for no other process.
  void flush();
  // No receive will take the message: the receiver has failed, or, if it lives, its communicator was revoked.
  // Releases the bytes. A receiver that lives may still have the RTS header; then the message is lost, and
  // this object waits for it to say so. False while a GPU, or a receiver that lives, uses the bytes.
  bool abandon(bool receiver_lives);
  // Copies that buffer() has started and of which advance() has not seen the end.
  static int unfinished_moves();

 private:
  RendezvousSend(node::Node& node, int index, int receiver, const Source& source, int device, Bytes bytes,
                 std::optional<Fallback> unreachable, std::unique_ptr<RendezvousPut> put);
  bool is_claimed() const {
    return slot_->state.load(std::memory_order_acquire) == node::RendezvousState::claimed;
  }
  bool is_possible(node::RendezvousState state) const;
  void stage_data();
  void end_move(device::Error error, Need need);
  void leave_device();
  void close();
  void lose();
  void release_memory();
  bool probed() const;

  node::Node& node_;
  int index_, receiver_;
  node::Rendezvous* slot_;
  node::RemoteMemory source_;  // as in the rendezvous, which another process may damage
  packing::View view_;         // where the bytes are now: the user's buffer or this library's
  uint64_t bytes_;
  int device_;
  bool exportable_;
  bool offered_;  // the bytes have come
  void* pooled_ = nullptr;
  struct MoveToPool;
  std::unique_ptr<MoveToPool> moving_;
  bool finished_ = false, abandoned_ = false, lost_ = false;
  bool puts_;
  std::unique_ptr<RendezvousPut> put_;  // while the bytes are on their way
  Traffic path_ = Traffic::peer;
  uint32_t failures_seen_;
  std::unique_ptr<transport::StagedSender> stream_;
  RtsHeader rts_;
};

// Rendezvous of this rank that are in use, for leak tests.
int rendezvous_in_use();

}  // namespace fairlead::p2p
