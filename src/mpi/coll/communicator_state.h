// SPDX-License-Identifier: Apache-2.0
//
// The state of a communicator's collectives in this process: its members, its collective slot in shared
// memory (src/coll/collective_slot.h), and the order of the calls. The state is an attribute of the
// communicator, so it is freed with the communicator; an operation in progress keeps it alive.
//
// A communicator has a collective slot if all its members are ranks of this node and known to each other.
// When the communicator is made, the members agree on a slot of the node's slot pool by one message of the
// host MPI. MPI_Comm_idup may not wait for a message: the first member takes the slot before the call, and
// when the others need it they find it by the parent of the duplicate. If Fairlead does not see a
// communicator being made, its members agree at their first collective.

#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "coll/collective_slot.h"
#include "coll/meeting.h"
#include "coll/memory_agreement.h"
#include "coll/nccl_collective.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/coll/collective_call.h"
#include "mpi/coll/node_hierarchy.h"
#include "mpi/core/engine.h"
#include "mpi/failures/failures.h"

namespace fairlead::mpi {

// Numbers from 1 on, each reported once and in any order. all_up_to() is the largest number such that it and
// all numbers below it have been reported.
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

// The memory that all ranks pass in a nonblocking call, which may not wait for an agreement: the ranks ask
// each other while the call is in progress. The answer takes effect at the next blocking call on the
// communicator, the first point at which all ranks certainly have it. The caller holds the engine's lock.
class MemoryQuestion {
 public:
  MemoryQuestion(unsigned function, uint64_t bytes) : function_(function), bytes_(bytes) {}
  // Call it in the order of the host MPI's collectives.
  void ask(MPI_Comm comm, bool on_device);
  // For a call that this rank does not make: its arguments are wrong, or a member has failed.
  void decline() { asked_ = true; }
  // False until all ranks have asked.
  bool answered();
  bool is_open() const { return request_ != MPI_REQUEST_NULL; }
  unsigned function() const { return function_; }
  uint64_t bytes() const { return bytes_; }
  bool yes() const { return yes_; }

 private:
  const unsigned function_;
  const uint64_t bytes_;
  bool asked_ = false;
  int yes_ = 0;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

class CommunicatorState {
 public:
  explicit CommunicatorState(MPI_Comm comm);
  // For a duplicate whose handle is not known yet.
  CommunicatorState(const CommunicatorState& parent, coll::DuplicateKey key);
  void belongs_to(MPI_Comm comm) { comm_ = comm; }
  MPI_Comm comm() const { return comm_; }

  // Makes the collective slot known to all members. The first member sends its number to the others. join()
  // waits for that; start_joining() and joined() do not.
  int join();
  void start_joining();
  bool joined();
  // Like joined(), but it does not call the host MPI, and any thread may call it.
  bool known() const { return join_.load(std::memory_order_acquire) == Join::over; }
  // Null if the communicator has no collective slot. Valid once joined.
  coll::CollectiveSlot* slot() { return slot_ ? &*slot_ : nullptr; }
  // Counts a call that is not executed: it has a number all the same. The caller holds the engine's lock.
  void skip();
  // Only for a communicator with a collective slot.
  coll::NcclMember& nccl() { return nccl_ ? *nccl_ : nccl_.emplace(*slot_); }
  coll::MeetingPlace& meeting_place() {
    return meeting_place_ ? *meeting_place_ : meeting_place_.emplace(*engine().node(), *slot_, node_ranks_);
  }
  const std::vector<int>& node_ranks() const { return node_ranks_; }
  const CommPosition& position() const { return position_; }
  int world_rank(int member) const;

  // The calls, in their order. A call is open until this rank has no more part in it.
  uint64_t begin_call() {
    ++open_;
    return ++called_;
  }
  void end_call(uint64_t number);
  int open_calls() const { return open_.load(std::memory_order_acquire); }
  // The host MPI sees the collectives of a communicator in the order of the calls. A call has its turn when
  // each call before it has gone to the host MPI, or never will.
  bool has_turn(uint64_t number) const { return cleared_.all_up_to() + 1 >= number; }
  bool all_cleared() const { return cleared_.all_up_to() == called_; }
  void clear(uint64_t number) { cleared_.report(number); }
  // Only for a communicator with a collective slot: NCCL is reserved in the order of the calls.
  bool all_before_have_arrived(uint64_t number) const { return arrived_.all_up_to() + 1 >= number; }
  void note_arrival(uint64_t number) { arrived_.report(number); }

  // Expects the next duplicate; the first member takes its slot. Returns none if there is no other member, or
  // if a member may not know the slot of this communicator yet. All members get the same result.
  std::optional<coll::DuplicateKey> expect_duplicate();

  // Lends a duplicate of an intra-communicator to one persistent collective, because each member may start
  // its persistent collectives in another order (MPI 4.1, 6.13). Collective. A duplicate is lent again once
  // the first member no longer needs it, or when there are very many; persistent collectives that share a
  // duplicate must be started in one order. Errors on a duplicate raise nothing. Returns null if none can be
  // made; the host MPI has raised that error.
  std::shared_ptr<MPI_Comm> lend_duplicate();

  // The duplicate for collectives by messages (nodes/message_collective.h): null before the first call of
  // make_for_messages(), which is collective as above.
  const std::shared_ptr<MPI_Comm>& for_messages() const { return for_messages_; }
  void make_for_messages() {
    if (!for_messages_) for_messages_ = lend_duplicate();
  }

  // The duplicate on which FAIRLEAD_CHECK=collectives compares the calls (entry/comparison.h): null if it
  // does not, or not yet. Nobody else uses it, so its calls have one order, which is that of the program's.
  // make_for_comparison() is collective, and blocks.
  const std::shared_ptr<MPI_Comm>& for_comparison() const { return for_comparison_; }
  void make_for_comparison();
  uint64_t next_comparison() { return compared_++; }

  // Does all that Fairlead has to do for a call with host memory while no call is open.
  void pass_by();

  // For an intra-communicator of ranks of MPI_COMM_WORLD that cannot share a collective slot, because they
  // are on several nodes or too many: its node hierarchy, and the agreement on the memory of its collectives.
  // The first call of hierarchy() is collective over the communicator and calls the host MPI.
  bool spans_nodes() const { return spans_nodes_; }
  NodeHierarchy& hierarchy();
  bool has_hierarchy() const { return hierarchy_ != nullptr; }
  // Call it when the communicator is freed; an operation may still hold this state.
  void free_communicators() {
    // Join even if no collective used the slot: it returns to the pool when all members have left it.
    if (duplicate_key_ && has_slot_pool()) joined();
    for (const std::shared_ptr<MPI_Comm>& duplicate : lent_) free_own(duplicate.get());
    lent_.clear();
    for_messages_.reset();
    for_comparison_.reset();
    hierarchy_.reset();
    if (nccl_ || meeting_place_) {
      std::lock_guard lock(engine().mutex());  // the progress thread may be in NCCL for another communicator
      nccl_.reset();
      meeting_place_.reset();
    }
    // The host MPI may still write an answer if it has refused a call that asked.
    for (std::shared_ptr<MemoryQuestion>& question : questions_)
      if (question->is_open()) new std::shared_ptr<MemoryQuestion>(std::move(question));
    questions_.clear();
  }
  coll::MemoryAgreement& memory() { return memory_; }

  // The questions of nonblocking calls, in the order of the calls.
  std::deque<std::shared_ptr<MemoryQuestion>>& questions() { return questions_; }

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
  std::optional<coll::DuplicateKey> duplicate_key_;
  uint64_t duplicates_ = 0;
  std::vector<std::shared_ptr<MPI_Comm>> lent_;
  std::shared_ptr<MPI_Comm> for_messages_, for_comparison_;
  uint64_t compared_ = 0;
  MPI_Request announcement_ = MPI_REQUEST_NULL;
  std::optional<coll::CollectiveSlot> slot_;
  std::optional<coll::NcclMember> nccl_;
  std::optional<coll::MeetingPlace> meeting_place_;
  std::unique_ptr<NodeHierarchy> hierarchy_;
  coll::MemoryAgreement memory_;
  std::deque<std::shared_ptr<MemoryQuestion>> questions_;
  bool spans_nodes_ = false, compares_ = false;
  uint64_t called_ = 0;
  std::atomic<int> open_{0};
  InOrder arrived_, cleared_, ended_;
  std::vector<uint64_t> skipped_;  // to be announced once the slot is known
};

// The state of this communicator; made on first use.
std::shared_ptr<CommunicatorState> communicator_state_of(MPI_Comm comm);
// Call it before any other operation of the host MPI that is collective over the communicator. Waits until
// the host MPI has seen all collectives that were called before.
void await_turn(MPI_Comm comm);
// Lives while the host MPI is in MPI_Comm_idup: the duplicate gets its CommunicatorState with the attributes
// that it inherits.
class Duplicating {
 public:
  explicit Duplicating(MPI_Comm comm);
  ~Duplicating();
  Duplicating(const Duplicating&) = delete;
  Duplicating& operator=(const Duplicating&) = delete;
};
// Call it after the host MPI has made a communicator. Collective over the communicator; MPI_COMM_NULL is
// allowed.
void agree_on_slot(MPI_Comm comm);

// `pool` is the slot pool of this node, or null. Close before opening again; opening again forgets all slots.
void open_communicator_states(std::unique_ptr<coll::SlotPool> pool);
void close_communicator_states();
// The number of slots that this rank has taken and that not all members have left.
size_t slots_taken();

}  // namespace fairlead::mpi
