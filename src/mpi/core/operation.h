// SPDX-License-Identifier: Apache-2.0
//
// The abstract operation: a send, receive or collective that Fairlead takes part in, from the user's call to
// its completion. A send or receive has exactly one host message with the user's communicator, peer and tag,
// posted before the user's call returns (M1), so that the host MPI does the matching. (A SendReceive has
// two.) If the user holds a request for an operation, the operation is bound to a real host request: the host
// message itself, a generalised request, or, if persistent, a request that is never started.
//
// Callers hold the engine's lock, except for start() and finish(), which they call without it.

#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "device/program/work.h"
#include "mpi/abi/real.h"
#include "mpi/core/deferred_free.h"
#include "mpi/core/engine.h"
#include "mpi/core/record.h"
#include "mpi/datatype/layout.h"
#include "mpi/failures/failures.h"
#include "p2p/rendezvous_send.h"

namespace fairlead::mpi {

// A GPU stream writes numbers that grow to a word of page-locked memory: open from `number` on.
struct StreamGate {
  const uint32_t* word = nullptr;
  uint32_t number = 0;
  bool is_open() const { return static_cast<int32_t>(__atomic_load_n(word, __ATOMIC_ACQUIRE) - number) >= 0; }
};

class Operation {
 public:
  explicit Operation(MPI_Comm comm) : comm_(comm) {
    // Only a communicator that is not freed can be asked for its failures.
    if (survives_failures()) keep_communicator();
  }
  // For an operation that is started before its GPU stream has come to it (mpi/stream): it is matched at
  // once, but leaves the buffer alone until then. Its start() returns cannot_be_early where it can only start
  // later.
  void start_early(StreamGate gate) { gate_ = gate; }
  static constexpr int cannot_be_early = -1;
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Posts the host message. If this returns an MPI error code, that is the result of the call, and nothing
  // was started.
  virtual int start() = 0;
  virtual void advance() = 0;
  // Like advance(), but calls no host MPI function.
  virtual void advance_without_host() {}
  // The bytes that it moves, at most, as far as that decides whether a thread helps it.
  virtual uint64_t bytes() const { return 0; }
  // Not null while only a message with this key can progress the operation.
  virtual const MatchKey* awaits() const { return nullptr; }
  // Is the operation complete, with nothing left to do for advance()?
  virtual bool rests() const { return complete() && !interrupted_; }
  // Called before this rank stops polling (M6): completes what this rank can complete alone, and makes its
  // peers independent of it.
  virtual void quiesce() = 0;
  // Returns false while the operation may still need a host MPI call that only this rank can make. Other
  // ranks that have started the same operation progress it shortly.
  virtual bool quiesced() const { return true; }
  // Asked before the operation is added to the engine: is the peer probably computing, so that a round of
  // progress should start the transfer now?
  virtual bool worth_a_round() const { return false; }
  // Called now and then in jobs that survive failures, while the operation is not complete. If a peer has
  // failed or the communicator was revoked, ends the operation with that error, as soon as no process that
  // lives uses its memory. Operations whose host requests are completed by MPI_Test get the error from there.
  virtual void end_if_failed(Failures&) {}
  // Is there anything that a thread could do for it now? The caller holds the engine's lock.
  virtual bool needs_help() const { return true; }
  // Is it worth looking at often? A trace shows when an end was seen.
  bool worth_watching() const;
  // Called after complete(): makes a host call that may block, if that is left; frees the host message, fills
  // `status`, raises errors through the communicator's handler and returns the code.
  virtual int finish(MPI_Status* status) = 0;
  // Fills `status` as finish() would, without ending anything.
  virtual void describe(MPI_Status* status) = 0;
  virtual void cancel() {}
  // For error messages: "a send of 4096 bytes to rank 1 with tag 5".
  virtual std::string description() const = 0;
  // The host request that itself represents this operation, or MPI_REQUEST_NULL.
  virtual MPI_Request own_handle() const { return MPI_REQUEST_NULL; }
  virtual std::unique_ptr<p2p::RendezvousSend> take_unfinished_rendezvous() { return nullptr; }

  // True also while the operation is interrupted.
  bool complete() const { return complete_.load(std::memory_order_acquire); }
  // A nonblocking receive from any rank is interrupted until the program has acknowledged the failure of a
  // process. Raises and returns the error for the completion call that meets it; MPI_SUCCESS: there is none.
  int take_interruption();
  // Has a failure ended it?
  bool failed() const { return failure_ != MPI_SUCCESS || interrupted_; }
  // A completion call begins. An interruption that it does not meet may be acknowledged by now.
  void start_waiting() {
    if (interrupted_.load(std::memory_order_relaxed)) resume();
    if (waiting_since_.load(std::memory_order_relaxed) == never)
      waiting_since_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
  }

  // The program may use its buffers again.
  virtual void give_buffers_back() { checked_.close(); }

  // For a persistent operation: the program may free the communicator before it starts the operation.
  void keep_communicator() { kept_comm_.emplace(comm_); }

  // State of the request that the user holds.
  bool persistent = false;
  bool active = true;  // if persistent: started and not completed
  MPI_Request handle = MPI_REQUEST_NULL;
  std::string call;  // "MPI_Isend at program+0x1234", with FAIRLEAD_CHECK=leaks

  // State that the engine keeps.
  Scheduled<Operation> scheduled;
  bool free_deferred = false;
  bool is_long = false;  // counted by the progress thread

 protected:
  static constexpr std::chrono::steady_clock::time_point never{};
  int raise(int code);
  bool early() const { return gate_.word; }
  // Must the buffer be left alone for now?
  bool held() const { return gate_.word && !gate_.is_open(); }
  void begin();  // for start(): discards an earlier round of a persistent operation
  void interrupt();
  // What a process that dies shares may be gone before the host MPI knows of its death. In a job that
  // survives failures, an operation that cannot go on repeats this for a while; false: no death explains it.
  bool awaits_news();
  bool resume();

  MPI_Comm comm_;
  StreamGate gate_;
  MPI_Request message_ = MPI_REQUEST_NULL;
  std::atomic<bool> complete_{false};
  std::atomic<bool> interrupted_{false};
  int failure_ = MPI_SUCCESS;  // of a peer, which has ended the operation
  std::chrono::steady_clock::time_point awaits_news_since_ = never;
  std::atomic<std::chrono::steady_clock::time_point> waiting_since_ = never;
  MessageRecord record_;
  device::program::OpenBuffers checked_;

 private:
  std::optional<KeptCommunicator> kept_comm_;
};

// Fills in the status of an inactive or null request.
void set_empty(MPI_Status* status);
MPI_Count byte_count(const MPI_Status& status);
void set_byte_count(MPI_Status* status, MPI_Count bytes);

}  // namespace fairlead::mpi
