// SPDX-License-Identifier: Apache-2.0
//
// A send or receive that Fairlead has a part in, from the user's call to its completion. Each has exactly one
// host message with the user's communicator, peer and tag, posted before the user's call returns (M1): the
// host MPI does the matching. (A SendReceive has two.) An operation that the user holds a request of is bound
// to a real host request: the host message itself, a generalised request, or, when persistent, one that is
// never started.
//
// start() and finish() are called without the engine's lock, the rest with it.

#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "mpi/abi/real.h"
#include "mpi/core/deferred_free.h"
#include "mpi/core/engine.h"
#include "mpi/core/record.h"
#include "mpi/datatype/layout.h"
#include "p2p/rendezvous_send.h"

namespace fairlead::mpi {

class Operation {
 public:
  explicit Operation(MPI_Comm comm) : comm_(comm) {}
  virtual ~Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  // Posts the host message. An MPI error code is the call's result, and nothing was started.
  virtual int start() = 0;
  virtual void advance() = 0;
  // Set while nothing but a message of this key can bring the operation on.
  virtual const MatchKey* awaits() const { return nullptr; }
  // It is complete, and advance() has nothing more to do.
  virtual bool rests() const { return complete(); }
  // Before this rank stops polling: ends what it can alone and makes its peers independent of it.
  virtual void quiesce() = 0;
  // False while it may still need a call of the host MPI that only this rank can make: others, who have come
  // to the same operation, bring it on in a moment.
  virtual bool quiesced() const { return true; }
  // After complete(): frees the host message, fills `status`, raises errors through the communicator's
  // handler and returns the code.
  virtual int finish(MPI_Status* status) = 0;
  // What finish() would say, without ending anything.
  virtual void describe(MPI_Status* status) = 0;
  virtual void cancel() {}
  // For errors: "a send of 4096 bytes to rank 1 with tag 5".
  virtual std::string in_words() const = 0;
  // The host request that stands for this operation itself, or MPI_REQUEST_NULL.
  virtual MPI_Request own_handle() const { return MPI_REQUEST_NULL; }
  virtual std::unique_ptr<p2p::RendezvousSend> take_unfinished_rendezvous() { return nullptr; }

  bool complete() const { return complete_.load(std::memory_order_acquire); }
  void start_waiting() {
    if (waiting_since_.load(std::memory_order_relaxed) == never)
      waiting_since_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
  }

  // Of a persistent one: the program may free the communicator before it starts it.
  void keep_communicator() { kept_comm_.emplace(comm_); }

  // Of the request the user holds.
  bool persistent = false;
  bool active = true;  // persistent: started and not completed
  MPI_Request handle = MPI_REQUEST_NULL;

  // Of the engine.
  Scheduled<Operation> scheduled;
  bool free_deferred = false;

 protected:
  static constexpr std::chrono::steady_clock::time_point never{};
  int raise(int code);
  void begin();  // for start(): forgets an earlier round of a persistent operation

  MPI_Comm comm_;
  MPI_Request message_ = MPI_REQUEST_NULL;
  std::atomic<bool> complete_{false};
  std::atomic<std::chrono::steady_clock::time_point> waiting_since_ = never;
  MessageRecord record_;

 private:
  std::optional<KeptCommunicator> kept_comm_;
};

// What an inactive or null request gives.
void set_empty(MPI_Status* status);
MPI_Count byte_count(const MPI_Status& status);
void set_byte_count(MPI_Status* status, MPI_Count bytes);

}  // namespace fairlead::mpi
