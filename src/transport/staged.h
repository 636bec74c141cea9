// SPDX-License-Identifier: Apache-2.0
//
// Transport `staged` inside a node: the sender copies its device memory by chunks into an arena that its node
// can reach, the receiver copies them out; both run at once, each at its own pace, with at most
// chunks_in_flight chunks of a message between them (see node/segment.h, Offer). The arena is pinned host
// memory, or, where the pair is served peer to peer and only this message's memory cannot be shared, device
// memory of the sender.
//
// A sender that must stop making progress spills: the rest of the message goes to memory of the node that the
// receiver finds through the offer (invariant M6). Where there is none, it tries again for a while, then
// gives the message up, which both sides report (invariant M13). Objects belong to one thread at a time.

#pragma once

#include "base/shortage.h"
#include "datatype/move.h"
#include "node/node.h"
#include "transport/arena.h"

namespace fairlead::transport {

using node::Medium;

// What spills must do so, or need not: without memory, the message waits for its receiver.
enum class Need { wanted, required };

class StagedSender {
 public:
  // Publishes the stream in `offer` (state streaming). `from` is device memory of `device`. Medium::device
  // asks for a pair that is proven; host memory serves where the pool cannot.
  StagedSender(Node& node, Rendezvous& rendezvous, int device, const datatype::View& from, uint64_t bytes,
               Medium medium);
  ~StagedSender();

  void advance();
  void flush_to_host(Need need);
  // It must spill, and there is no memory now.
  bool short_of_memory() const { return shortage_.exists() && !failed_ && !read_out(); }
  // The source may be reused or freed.
  bool read_out() const { return produced_ == total_ || flushed_; }
  bool failed() const { return failed_; }
  // The receiver has said done: gives the chunks back. Waits for copies in flight.
  void finish();

 private:
  uint64_t length(uint64_t chunk) const;
  void take_back_consumed();
  device::Error fill_rest(uint64_t from);
  void fail(node::Reason reason, const char* what);

  Node& node_;
  Arena* arena_ = nullptr;
  Rendezvous& rendezvous_;
  int device_;
  datatype::View from_;
  uint64_t bytes_, total_;
  uint64_t started_ = 0, produced_ = 0, returned_ = 0;
  bool flushed_ = false, failed_ = false;
  datatype::Move copies_[node::chunks_in_flight];
  node::NodeMemory::Range rest_;
  Shortage shortage_;
};

class StagedReceiver {
 public:
  // Takes at most `bytes` bytes to `to`; `device` runs the copies, -1 when `to` is host memory.
  StagedReceiver(Node& node, int owner, Rendezvous& rendezvous, int device, const datatype::View& to, uint64_t bytes);

  // none: all has arrived; not_ready; failed: the sender gave up or a copy failed.
  device::Error advance();
  bool through_device() const { return medium_ == Medium::device; }
  // Of one that has failed.
  const char* what_failed() const { return what_failed_; }

 private:
  uint64_t length(uint64_t chunk) const;
  device::Error land(uint64_t chunk);
  device::Error land_rest(uint64_t from);
  device::Error lost(const char* what);
  device::Error short_of_memory();

  Node& node_;
  int owner_;
  Rendezvous& rendezvous_;
  int device_;      // that copies
  const int home_;  // of the buffer
  datatype::View to_;
  const Medium medium_;
  const uint64_t bytes_, chunk_bytes_, total_;
  uint64_t started_ = 0, finished_ = 0;
  int refusals_ = 0;  // to map the arena
  Shortage shortage_;
  const char* what_failed_ = "";
  ArenaView arena_;  // before copies_: copies end before their mapping goes
  datatype::Move copies_[node::chunks_in_flight];
};

}  // namespace fairlead::transport
