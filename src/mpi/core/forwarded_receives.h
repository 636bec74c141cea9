// SPDX-License-Identifier: Apache-2.0
//
// Forwarded receives: receives into host memory that the host MPI carries out alone, because no RTS header
// can come to this rank yet. Until a rank sends device messages to it, all its receives of host memory are
// forwarded: they make no operation, so completion calls are forwarded as well.
//
// A rank holds off RTS headers while it has a receive in flight whose buffer cannot take one: its senders
// then send whole messages. Ranks of the node read that from this rank's block in the segment; ranks of other
// nodes send no RTS header before this rank permits it (mpi/network/network.h). Once RTS headers may come,
// no receive is forwarded any more, and those in flight are watched: they become operations, which recognize
// an RTS header. That takes one call of the program that receives, probes, completes or starts an operation,
// for which nobody waits.
//
// Receives are forwarded only if a single thread calls MPI, so the table of them has no lock.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/core/interception.h"

namespace fairlead::mpi {

// Has a rank of the node sent an RTS header, or is about to? Stays true.
bool rts_comes_inside();
// The same for ranks of other nodes. Ends with the job.
bool rts_comes_from_outside();
void expect_rts_from_outside(bool expected);
inline bool rts_may_come() {
  return rts_comes_inside() || rts_comes_from_outside();
}

// Each call of block_rts() is followed by rts_may_come(): either the caller sees there that RTS headers
// come, or their senders see that this rank holds them off.
void block_rts();
void unblock_rts();
bool holds_off_rts();
// Holds off RTS headers unless they may come already; returns whether it does.
bool block_rts_in_time();
// For Engine::open(): the count moves to the block of this rank in the segment; null: there is none.
void count_held_off_in(std::atomic<uint32_t>* place);

// Holds off RTS headers as long as it lives, unless they may come already.
class RtsBlocked {
 public:
  RtsBlocked() : held_(block_rts_in_time()) {}
  ~RtsBlocked() {
    if (held_) unblock_rts();
  }
  RtsBlocked(const RtsBlocked&) = delete;
  RtsBlocked& operator=(const RtsBlocked&) = delete;

  explicit operator bool() const { return held_; }

 private:
  const bool held_;
};

struct ForwardedReceive {
  MPI_Request request;
  void* address;
  MPI_Count bytes;
  MPI_Count count;
  MPI_Datatype datatype;  // predefined, without gaps
  int source, tag;
  MPI_Comm comm;
  uint64_t order = 0;
};

// A hash table of the nonblocking ones in flight. To add, find and remove one takes a few nanoseconds.
class ForwardedReceives {
 public:
  bool empty() const { return size_ == 0; }
  bool contains(MPI_Request request) const { return !empty() && find(request) != none; }
  // The table holds off RTS headers while a receive is in it, and from block_rts() to add() or give_up(),
  // between which an error handler of the program may make other calls. Returns false if they may come
  // already.
  bool block_rts() {
    const bool held = size_ + posting_ == 0 ? block_rts_in_time() : !rts_may_come();
    posting_ += held;
    return held;
  }
  void add(const ForwardedReceive& receive);
  void give_up() {
    --posting_;
    unblock_rts_if_last();
  }
  // The host MPI has completed this request, which need not be in the table.
  void remove(MPI_Request request);
  // Turns all into operations. Call it before several threads may call MPI, too.
  void watch();

 private:
  static constexpr size_t none = SIZE_MAX;
  size_t home(MPI_Request request) const;
  size_t find(MPI_Request request) const;
  ForwardedReceive& insert(const ForwardedReceive& receive);
  void unblock_rts_if_last() {
    if (size_ + posting_ == 0) unblock_rts();
  }

  std::vector<ForwardedReceive> slots_;  // a power of two; free ones have MPI_REQUEST_NULL
  size_t size_ = 0, posting_ = 0;
  uint64_t posted_ = 0;
};
ForwardedReceives& forwarded_receives();

// Call before a receive or a probe, and before another operation is added: those in flight, which were posted
// earlier, become operations as soon as RTS headers may come, or if `must`.
inline void watch_forwarded(bool must = false) {
  if (!forwarded_receives().empty() && (must || rts_may_come())) forwarded_receives().watch();
}

// Call after a forwarded receive of up to this many bytes is complete. A rank of another node that has sent a
// long message may have asked for permission before.
extern MPI_Count longest_unasked;  // receives up to this length need no note
void note_long_receive();
inline void note_forwarded(MPI_Count bytes) {
  if (bytes > longest_unasked) [[unlikely]]
    note_long_receive();
}

// Leaves a blocking receive with this room to `host`, a call of the host MPI. Returns false if an RTS header
// may come to it; those in flight are operations then.
template <class Call>
bool forward_receive(int room, const Call& host, int* result) {
  if (may_swallow_rts(room)) {
    *result = noted(host());
    return true;
  }
  if (RtsBlocked held; held) {
    *result = noted(host());
  } else {
    watch_forwarded();
    return false;
  }
  note_forwarded(room);
  return true;
}

// Lives during a completion call of the host MPI on these requests, and notes which forwarded receives it
// completes: the host MPI changes their handles.
class ForwardedCompletion {
 public:
  ForwardedCompletion(int count, const MPI_Request* requests) {
    if (!forwarded_receives().empty() && count > 0 && requests) begin(count, requests);
  }
  ~ForwardedCompletion() {
    if (count_ > 0) end();
  }
  ForwardedCompletion(const ForwardedCompletion&) = delete;
  ForwardedCompletion& operator=(const ForwardedCompletion&) = delete;

 private:
  void begin(int count, const MPI_Request* requests);
  void end();

  static constexpr int few = 64;
  int count_ = 0;
  const MPI_Request* now_ = nullptr;
  MPI_Request first_[few];
  std::vector<MPI_Request> rest_;
};

}  // namespace fairlead::mpi
