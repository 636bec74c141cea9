// SPDX-License-Identifier: Apache-2.0
//
// Transport `staged` inside a node: a pipelined transfer. The sender copies its device memory in chunks into
// an arena that its node can map, and the receiver copies them out. Both run at once, each at its own pace,
// with at most chunks_in_flight chunks of a message between them (see node/segment.h, Rendezvous). The arena
// is pinned host memory. If the pair supports peer copies and only this message's memory cannot be shared,
// the arena is device memory of the sender.
//
// A sender that must stop making progress flushes the rest of the message to memory of the node, which the
// receiver locates through the rendezvous (invariant M6). If there is no such memory, the sender retries for
// a while, then gives the message up, which both sides report (invariant M13). Objects belong to one thread
// at a time.

#pragma once

#include "base/shortage.h"
#include "node/node.h"
#include "packing/move.h"
#include "transport/arena.h"

namespace fairlead::transport {

using node::Medium;

// Whether a flush to host memory is required or only wanted. Without memory for a flush that is only wanted,
// the message waits for its receiver.
enum class Need { wanted, required };

class StagedSender {
 public:
  // Starts the pipelined transfer in `rendezvous` (state `pipelined`) to a node rank. `from` is device memory
  // of `device`.
  // Medium::device requires a pair that passed the peer-access probe; if the pool cannot be used, the
  // transfer uses host memory.
  StagedSender(Node& node, Rendezvous& rendezvous, int receiver, int device, const packing::View& from,
               uint64_t bytes, Medium medium);
  ~StagedSender();

  void advance();
  void flush_to_host(Need need);
  // A flush is required, and there is no memory for it now.
  bool short_of_memory() const { return shortage_.exists() && !failed_ && !read_out(); }
  // The source may be reused or freed.
  bool read_out() const { return produced_ == total_ || flushed_; }
  bool failed() const { return failed_; }
  // No receive will take the message. A receiver that has its RTS header fails. Waits for copies in flight.
  void abandon();
  // The same in place of a transfer that has not begun.
  static void refuse(Rendezvous& rendezvous, uint64_t bytes);
  bool through_device() const { return medium_ == Medium::device; }
  // Called when the receiver has set `done`: gives the chunks back. Waits for copies in flight.
  void finish();

 private:
  uint64_t length(uint64_t chunk) const;
  bool words_are_sound();
  void take_back_consumed();
  device::Error fill_rest(uint64_t from);
  void fail(node::Reason reason, const char* what);

  Node& node_;
  Arena* arena_ = nullptr;
  Rendezvous& rendezvous_;
  int receiver_, device_;
  packing::View from_;
  Medium medium_ = Medium::host;
  uint64_t bytes_, chunk_bytes_, total_;
  uint64_t chunks_[node::chunks_in_flight];  // as in the rendezvous, which another process may damage
  uint64_t started_ = 0, produced_ = 0, returned_ = 0;
  bool flushed_ = false, failed_ = false;
  packing::Move copies_[node::chunks_in_flight];
  node::NodeMemory::Range rest_;
  Shortage shortage_;
};

class StagedReceiver {
 public:
  // Receives at most `bytes` bytes into `to`; `device` runs the copies, -1 if `to` is host memory.
  StagedReceiver(Node& node, int owner, Rendezvous& rendezvous, int device, const packing::View& to,
                 uint64_t bytes);

  // none: all bytes are received; not_ready; failed: the sender gave up or a copy failed.
  device::Error advance();
  bool through_device() const { return medium_ == Medium::device; }
  uint64_t chunks_received() const { return finished_; }
  // Valid after a failure.
  const char* what_failed() const { return what_failed_; }

 private:
  uint64_t length(uint64_t chunk) const;
  device::Error copy_chunk(uint64_t chunk);
  device::Error copy_rest(uint64_t from);
  device::Error lost(const char* what);
  device::Error short_of_memory();

  Node& node_;
  int owner_;
  Rendezvous& rendezvous_;
  int device_;      // runs the copies
  const int home_;  // device of the buffer, -1 for host memory
  packing::View to_;
  const Medium medium_;
  const uint64_t bytes_, chunk_bytes_, total_;
  const bool sound_;
  uint64_t started_ = 0, finished_ = 0;
  int refusals_ = 0;  // failed attempts to map the arena
  Shortage shortage_;
  const char* what_failed_ = "";
  ArenaView arena_;  // declared before copies_: copies end before their mapping is closed
  packing::Move copies_[node::chunks_in_flight];
};

}  // namespace fairlead::transport
