// SPDX-License-Identifier: Apache-2.0
//
// A collective as messages of Fairlead's own, for the functions in which no rank knows how long the blocks of
// the others are: each block that has bytes is a message, from the rank that sends it to the one that
// receives it. Any memory of any rank gives the right result, and no rank waits for others before it starts.
//
// A long block of device memory is a Send or a Receive, so it takes the best path between its two ranks. All
// short blocks pass through one page-locked buffer, by few copies, as plain messages. Blocks of host memory
// are sent from where they are. The two ends of a block need not choose alike, because a Receive takes any
// message.
//
// The messages have one tag, on a communicator of the same ranks that carries nothing else. start() posts all
// of them, and all ranks start their collectives in one order, so messages between two ranks match in that
// order, too. A rank that cannot read a block sends a message of no bytes instead, so that the other end
// fails and does not wait; one that has no memory to receive a block receives it all the same, and fails.

#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/report_timer.h"
#include "device/pinned_buffer.h"
#include "mpi/coll/communicator_state.h"
#include "mpi/core/deferred_free.h"
#include "mpi/core/operation.h"
#include "mpi/p2p/receive_operation.h"
#include "mpi/p2p/send_operation.h"
#include "packing/move.h"

namespace fairlead::mpi {

class MessageCollective : public Operation {
 public:
  static bool serves(const CollectiveCall& call) { return !call.shape().knows_lengths(); }
  // `messages` is a duplicate of the call's communicator that returns errors. Persistent collectives need
  // another tag than others: they are started in an order of their own.
  enum class Form { blocking, nonblocking, persistent };
  MessageCollective(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call, Regions regions,
                    Form form, std::shared_ptr<MPI_Comm> messages);

  int start() override;
  void advance() override;
  uint64_t bytes() const override { return static_cast<uint64_t>(regions_.bytes()); }
  // The engine has the messages. This rank's question is not asked before its turn.
  void quiesce() override { ask_in_turn(); }
  bool quiesced() const override { return asked_; }
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override { set_empty(status); }
  std::string description() const override { return mpi::description(regions_); }

 private:
  // One end of a message.
  struct Part {
    int peer;
    int number;  // among those of this peer, at both ends
    Layout layout;
    UserBuffer buffer;
    bool staged = false;
    uint64_t at = 0;  // in staging_
  };
  // Staged parts that one copy moves.
  struct Run {
    size_t begin, end;
    uint64_t bytes = 0;
    packing::Move move;
    bool failed = false;
  };
  struct Side {
    std::vector<Part> parts;
    std::deque<Run> runs;
  };
  struct Arrival {
    Arrival(const UserBuffer& buffer, int source, int tag, MPI_Comm comm)
        : receive(buffer, source, tag, comm) {}
    Receive receive;
    bool posted = false;
    bool over() const { return !posted || receive.complete(); }
  };

  void find_parts();
  bool is_short(const Part& part) const;
  void stage();
  void make_runs(Side& side, uint64_t* bytes);
  void move(const Side& side, Run& run, bool out);
  bool moved(Run& run);
  void receive(const Part& part);
  bool post(const UserBuffer& buffer, int peer);
  void send(const Part& part);
  void send_from_host(const void* address, MPI_Count count, MPI_Datatype datatype, int peer);
  void ask_in_turn();
  void report_stall();
  void note(int result) { error_ = error_ == MPI_SUCCESS ? result : error_; }

  std::shared_ptr<CommunicatorState> state_;
  std::shared_ptr<MemoryQuestion> question_;  // null, or asked with the call
  std::shared_ptr<MPI_Comm> messages_;
  const int tag_;
  const CollectiveCall call_;
  Regions regions_;
  std::optional<KeptHandles> kept_;
  uint64_t number_ = 0;  // of the question, in the order of calls
  bool asked_ = true;
  Side out_, in_;
  device::PinnedBuffer staging_;
  uint64_t staged_bytes_ = 0;
  // Of the elements that follow, those before these indices are over; the runs before `storing_` have begun.
  size_t sent_ = 0, host_sent_ = 0, arrived_ = 0, storing_ = 0, stored_ = 0;
  std::deque<Send> sends_;
  std::vector<MPI_Request> host_sends_;
  std::deque<Arrival> arrivals_;
  size_t dummies_ = 0;  // blocks for which there is no memory
  ReportTimer report_timer_;
  bool waits_ = false;  // the sends know that the program waits
  int error_ = MPI_SUCCESS;
};

}  // namespace fairlead::mpi
