// SPDX-License-Identifier: Apache-2.0
//
// What this process knows of a communicator's collectives: who its members are, whether they meet in shared
// memory (src/coll/collective_slot.h), and the order of the calls. Kept as an attribute of the communicator, so that
// it goes when the communicator goes; an operation that is still under way keeps it alive.
//
// A communicator meets if all its members are ranks of this node, known to each other. They agree on a place
// in the node's hall by one message of the host MPI when the communicator is made. MPI_Comm_idup may not wait
// for one: the first member takes the place before the call, and the others find it by what the communicator
// is a duplicate of, when they need it. Those that Fairlead does not see being made agree at their first
// collective.

#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "coll/nccl_collective.h"
#include "coll/collective_slot.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/coll/collective_call.h"
#include "mpi/coll/node_hierarchy.h"

namespace fairlead::mpi {

// Numbers from 1 on, each reported once, in any order; tells up to which all have been.
class InOrder {
 public:
  void report(uint64_t number) {
    if (number == all_up_to_ + 1 && early_.empty()) {
      all_up_to_ = number;
      return;
    }
    early_.insert(number);
    for (auto next = early_.begin(); next != early_.end() && *next == all_up_to_ + 1;
         next = early_.erase(next))
      ++all_up_to_;
  }
  uint64_t all_up_to() const { return all_up_to_; }

 private:
  uint64_t all_up_to_ = 0;
  std::set<uint64_t> early_;
};

class CommunicatorState {
 public:
  explicit CommunicatorState(MPI_Comm comm);
  // Of a duplicate, whose handle is not known yet.
  CommunicatorState(const CommunicatorState& parent, coll::Heir heir);
  void belongs_to(MPI_Comm comm) { comm_ = comm; }
  MPI_Comm comm() const { return comm_; }

  // Makes sure that the members know where they meet. The first rank of them tells the others: join() waits
  // for that, start_joining() and joined() do not.
  void join();
  void start_joining();
  bool joined();
  // The same without asking the host MPI, from any thread.
  bool known() const { return join_.load(std::memory_order_acquire) == Join::over; }
  // Do the collectives of this communicator meet? Known once joined.
  coll::CollectiveSlot* slot() { return slot_ ? &*slot_ : nullptr; }
  // A call that takes place nowhere, with the engine's lock: it has a number all the same.
  void skip();
  // Of those that meet.
  coll::NcclMember& nccl() { return nccl_ ? *nccl_ : nccl_.emplace(*slot_); }
  const std::vector<int>& node_ranks() const { return node_ranks_; }
  const CommPosition& position() const { return position_; }
  int world_rank(int member) const;

  // The calls, in their order. A call is open until this rank has no part in it any more.
  uint64_t begin_call() {
    ++open_;
    return ++called_;
  }
  void end_call(uint64_t number);
  int open_calls() const { return open_.load(std::memory_order_acquire); }
  // The host MPI sees the collectives of a communicator in the order of the calls: a call has its turn when
  // each before it has been handed to the host MPI, or will not be.
  bool has_turn(uint64_t number) const { return cleared_.all_up_to() + 1 >= number; }
  bool all_cleared() const { return cleared_.all_up_to() == called_; }
  void clear(uint64_t number) { cleared_.report(number); }

  // The next duplicate, whose place the first member takes. None where a member may not know this one's place
  // yet, which all members answer alike, or where there is nobody to find it.
  std::optional<coll::Heir> expect_duplicate();

  // A duplicate of an intra-communicator for one persistent collective, whose starts may come in another
  // order on each member (MPI 4.1, 6.13). Collective; lent again once the first member needs it no more, or
  // when there are very many: those who share one must start in one order. Errors on it raise nothing. Null
  // when none can be made, which the host MPI has raised.
  std::shared_ptr<MPI_Comm> lend_duplicate();

  // A call with host memory when none is open: the whole of what Fairlead does about it.
  void pass_by();

  // Of a communicator that may have members elsewhere: its nodes. The first question is collective over it,
  // and asks the host MPI.
  bool may_span_nodes() const { return !position_.inter && !may_meet(); }
  NodeHierarchy& hierarchy();
  // The communicator goes, an operation may still keep this.
  void free_communicators() {
    // Even if it never met: the place is given back when all have left.
    if (heir_ && has_slot_pool()) joined();
    for (const std::shared_ptr<MPI_Comm>& duplicate : lent_) PMPI_Comm_free(duplicate.get());
    lent_.clear();
    hierarchy_.reset();
    nccl_.reset();
  }
  // In each collective all members pass device memory, or none does.
  void assert_uniform_kinds(bool uniform) { uniform_kinds_ = uniform; }
  bool has_uniform_kinds() const { return uniform_kinds_; }

 private:
  static bool has_slot_pool();
  bool may_meet() const;
  bool begin_joining();
  void leave_word(uint64_t number);
  int make_duplicate(MPI_Comm* duplicate);

  MPI_Comm comm_;
  CommPosition position_;
  std::vector<int> node_ranks_;
  enum class Join { not_begun, begun, over };
  std::atomic<Join> join_{Join::not_begun};
  bool joined_together_ = false;  // in a blocking call, or without a message
  int64_t slot_number_ = -1;
  std::optional<coll::Heir> heir_;
  uint64_t duplicates_ = 0;
  std::vector<std::shared_ptr<MPI_Comm>> lent_;
  MPI_Request announcement_ = MPI_REQUEST_NULL;
  std::optional<coll::CollectiveSlot> slot_;
  std::optional<coll::NcclMember> nccl_;
  std::unique_ptr<NodeHierarchy> hierarchy_;
  bool uniform_kinds_;
  uint64_t called_ = 0;
  std::atomic<int> open_{0};
  InOrder cleared_, ended_;
  std::vector<uint64_t> skipped_;  // of which the others get word when they are known
};

// Of this communicator; made if there is none yet.
std::shared_ptr<CommunicatorState> communicator_state_of(MPI_Comm comm);
// Before the host MPI does anything else that is collective over it: waits until it has seen all collectives
// that were called before.
void await_turn(MPI_Comm comm);
// While the host MPI is in MPI_Comm_idup: the duplicate gets its CommunicatorState with the attributes it
// inherits.
class Duplicating {
 public:
  explicit Duplicating(MPI_Comm comm);
  ~Duplicating();
  Duplicating(const Duplicating&) = delete;
  Duplicating& operator=(const Duplicating&) = delete;
};
// After the host MPI made a communicator: collective over it. MPI_COMM_NULL is allowed.
void agree_on_slot(MPI_Comm comm);

// `hall`: of this node, if it has one. Closed before it is opened again, which forgets all places.
void open_communicator_states(std::unique_ptr<coll::SlotPool> pool);
void close_communicator_states();
// Communicators whose place this rank gave away and not all members have left.
size_t slots_taken();

}  // namespace fairlead::mpi
