// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/communicator_state.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/memory/dummy_memory.h"
#include "mpi/abi/comm_self.h"
#include "mpi/abi/mutex.h"
#include "mpi/coll/agreement.h"
#include "mpi/core/communicator.h"
#include "mpi/core/engine.h"
#include "mpi/core/gather.h"
#include "mpi/core/interception.h"
#include "mpi/core/requests/poll.h"
#include "observe/per_thread.h"

namespace fairlead::mpi {
namespace {

auto& pool = *new std::unique_ptr<coll::SlotPool>;
int keyval = MPI_KEYVAL_INVALID;

// The program needs some communicators: quirk few_communicators.
constexpr size_t lent_at_most = 256;

using Kept = std::shared_ptr<CommunicatorState>;

// The state that a thread used last. When a communicator is freed, its handle may come back for another one;
// `freed` detects that.
std::atomic<uint64_t> freed{0};
struct Recent {
  MPI_Comm comm = MPI_COMM_NULL;
  uint64_t freed = 0;
  Kept state;
};
struct OfThread {
  Recent recent;
  Kept expected;  // the state that the duplicate being made by this thread inherits
};
// A program may finalize in the destructor of a static object, when variables of its thread are gone.
OfThread& of_thread() {
  return observe::PerThread<OfThread>::mine();
}

void leave(const Kept& kept) {
  freed.fetch_add(1, std::memory_order_relaxed);
  of_thread().recent.state.reset();
  kept->free_communicators();
}

int forget(MPI_Comm, int, void* value, void*) {
  Kept* kept = static_cast<Kept*>(value);
  leave(*kept);
  delete kept;
  return MPI_SUCCESS;
}

int inherit(MPI_Comm, int, void*, void*, void* inherited, int* inherits) {
  Kept& expected = of_thread().expected;
  *inherits = expected != nullptr;
  if (expected) *static_cast<void**>(inherited) = new Kept(std::move(expected));
  expected.reset();
  return MPI_SUCCESS;
}

// The state of MPI_COMM_SELF is no attribute: MPI_Finalize deletes the attributes of that communicator before
// the program is done with it.
auto& of_self = *new Kept;

Kept find_or_make_of_self() {
  static auto& mutex = *new Mutex;
  std::lock_guard lock(mutex);
  if (!of_self) of_self = std::make_shared<CommunicatorState>(MPI_COMM_SELF);
  return of_self;
}

Kept find_or_make(MPI_Comm comm) {
  if (comm == MPI_COMM_SELF) return find_or_make_of_self();
  Kept kept =
      *attribute_of<Kept>(comm, keyval, [&] { return new Kept(std::make_shared<CommunicatorState>(comm)); });
  kept->belongs_to(comm);
  return kept;
}

}  // namespace

CommunicatorState::CommunicatorState(MPI_Comm comm) : comm_(comm), position_(position_in(comm)) {
  if (node_limits().uniform) memory_.set_rule(coll::MemoryAgreement::Rule::at_every_call);
  if (position_.inter) return;
  bool one_world = node_limits().segment > 0;
  for (int member = 0; member < position_.size; ++member) {
    const int world = rank_in_world(comm, member);
    one_world &= world >= 0;
    if (pool) node_ranks_.push_back(engine().node()->node_rank_of_world(world));
  }
  spans_nodes_ = one_world && position_.size > 1 && !may_meet();
  compares_ = node_limits().compares && one_world && position_.size > 1;
}

CommunicatorState::CommunicatorState(const CommunicatorState& parent, coll::DuplicateKey key)
    : comm_(MPI_COMM_NULL),
      position_(parent.position_),
      node_ranks_(parent.node_ranks_),
      joined_together_(true),
      duplicate_key_(key),
      spans_nodes_(parent.spans_nodes_),
      compares_(parent.compares_) {
  memory_.set_rule(parent.memory_.rule());
}

int CommunicatorState::world_rank(int member) const {
  return engine().node()->world_rank(node_ranks_[static_cast<size_t>(member)]);
}

bool CommunicatorState::has_slot_pool() {
  return pool != nullptr;
}

// All members get the same answer.
bool CommunicatorState::may_meet() const {
  if (node_ranks_.empty() || position_.size > node_limits().members) return false;
  for (int rank : node_ranks_)
    if (rank < 0) return false;
  return true;
}

// Must the slot's number be sent to the other members?
bool CommunicatorState::begin_joining() {
  if (join_ != Join::not_begun) return false;
  join_ = may_meet() ? Join::begun : Join::over;
  if (join_ == Join::over) return false;
  if (duplicate_key_) {
    slot_number_ = pool->find(node_ranks_[0], *duplicate_key_);
    return false;
  }
  if (position_.rank == 0) slot_number_ = pool->take(position_.size);
  return position_.size > 1;
}

void CommunicatorState::start_joining() {
  if (begin_joining()) real.Ibcast(&slot_number_, sizeof slot_number_, MPI_BYTE, 0, comm_, &announcement_);
}

bool CommunicatorState::joined() {
  if (join_ == Join::over) return true;
  start_joining();
  int here = 1;
  if (announcement_ != MPI_REQUEST_NULL && real.Test(&announcement_, &here, MPI_STATUS_IGNORE) != MPI_SUCCESS)
    slot_number_ = -1;
  if (!here) return false;
  if (slot_number_ >= 0) slot_.emplace(pool->slot(slot_number_), position_.size, position_.rank);
  if (slot_ && survives_failures()) slot_->members_may_fail();
  for (uint64_t number : std::exchange(skipped_, {})) leave_word(number);
  join_.store(Join::over, std::memory_order_release);
  return true;
}

// Uses the blocking form: all members are in a blocking call, and the two forms do not match.
int CommunicatorState::join() {
  if (known()) return MPI_SUCCESS;
  int result = MPI_SUCCESS;
  joined_together_ |= join_ == Join::not_begun;
  if (begin_joining()) {
    gather_before(comm_);
    BlockingHostCall blocking_call;
    result = real.Bcast(&slot_number_, sizeof slot_number_, MPI_BYTE, 0, comm_);
    if (result != MPI_SUCCESS) slot_number_ = -1;
  }
  // Another thread that makes progress may call joined() as well.
  auto joined_now = [this] {
    std::lock_guard lock(engine().mutex());
    return joined();
  };
  await_ranks("the first collective on a communicator", comm_, joined_now);
  return result;
}

void CommunicatorState::end_call(uint64_t number) {
  ended_.report(number);
  if (slot_) slot_->pass(ended_.all_up_to());
  --open_;
}

// Announces that the host MPI has this rank's part of the call.
void CommunicatorState::leave_word(uint64_t number) {
  if (!slot_) return;
  if (slot_->may_arrive(number))
    slot_->arrive(number, coll::Capability::host);
  else
    slot_->go_ahead(number);
  note_arrival(number);
}

void CommunicatorState::pass_by() {
  uint64_t number = ++called_;
  leave_word(number);
  cleared_.report(number);
  ended_.report(number);
  slot_->pass(number);
}

void CommunicatorState::skip() {
  const uint64_t number = begin_call();
  if (known())
    leave_word(number);
  else
    skipped_.push_back(number);
  clear(number);
  end_call(number);
}

// Another member may still hold the chosen duplicate, but only for a request that can never be started again,
// because the first member has freed it.
std::shared_ptr<MPI_Comm> CommunicatorState::lend_duplicate() {
  await_turn(comm_);
  gather_before(comm_);
  BlockingHostCall blocking_call;
  auto users = [](const auto& one) { return one.use_count() - 1; };
  auto least = std::ranges::min_element(lent_, {}, users);
  if (least != lent_.end() && users(*least) > 0 && lent_.size() < lent_at_most) least = lent_.end();
  int chosen = static_cast<int>(least - lent_.begin());
  if (real.Bcast(&chosen, 1, MPI_INT, 0, comm_) != MPI_SUCCESS) return nullptr;
  if (chosen == static_cast<int>(lent_.size())) {
    MPI_Comm duplicate = MPI_COMM_NULL;
    if (make_duplicate(&duplicate) != MPI_SUCCESS) return nullptr;
    if (pool && !survives_failures()) communicator_state_of(duplicate)->join();
    lent_.push_back(std::make_shared<MPI_Comm>(duplicate));
  }
  return lent_[static_cast<size_t>(chosen)];
}

// MPI_Comm_dup calls the program's attribute copy functions, but it is the only function that keeps a
// topology.
int CommunicatorState::make_duplicate(MPI_Comm* duplicate) {
  int topology = MPI_UNDEFINED;
  PMPI_Topo_test(comm_, &topology);
  return adopt(
      topology == MPI_UNDEFINED ? real.Comm_split(comm_, 0, 0, duplicate) : real.Comm_dup(comm_, duplicate),
      duplicate);
}

void CommunicatorState::make_for_comparison() {
  if (!compares_ || for_comparison_) return;
  await_turn(comm_);
  gather_before(comm_);
  BlockingHostCall blocking_call;
  MPI_Comm duplicate = MPI_COMM_NULL;
  if (make_duplicate(&duplicate) != MPI_SUCCESS) return;
  for_comparison_ = std::shared_ptr<MPI_Comm>(new MPI_Comm(duplicate), [](MPI_Comm* made) {
    free_own(made);
    delete made;
  });
}

std::optional<coll::DuplicateKey> CommunicatorState::expect_duplicate() {
  if (position_.size == 1 || !joined_together_ || !joined() || !slot_) return std::nullopt;
  coll::DuplicateKey key{pool->name(slot_number_), ++duplicates_};
  if (position_.rank == 0) pool->take(position_.size, key);
  return key;
}

NodeHierarchy& CommunicatorState::hierarchy() {
  if (!hierarchy_) {
    await_turn(comm_);
    gather_before(comm_);
    auto first = std::find_if(node_ranks_.begin(), node_ranks_.end(), [](int rank) { return rank >= 0; });
    int first_of_node = node_ranks_.empty() ? position_.rank : static_cast<int>(first - node_ranks_.begin());
    hierarchy_ = std::make_unique<NodeHierarchy>(comm_, first_of_node);
  }
  return *hierarchy_;
}

void MemoryQuestion::ask(MPI_Comm comm, bool on_device) {
  asked_ = true;
  yes_ = on_device;
  if (real.Iallreduce(MPI_IN_PLACE, &yes_, 1, MPI_INT, MPI_MIN, comm, &request_) != MPI_SUCCESS) yes_ = 0;
}

bool MemoryQuestion::answered() {
  if (!asked_) return false;
  int here = 1;
  if (is_open()) real.Test(&request_, &here, MPI_STATUS_IGNORE);
  return here;
}

std::shared_ptr<CommunicatorState> communicator_state_of(MPI_Comm comm) {
  uint64_t now = freed.load(std::memory_order_relaxed);
  Recent& recent = of_thread().recent;
  if (recent.comm != comm || recent.freed != now || !recent.state) recent = {comm, now, find_or_make(comm)};
  return recent.state;
}

// The blocking call withdraws what is undecided. A collective that is decided to run on the GPU may still
// fall back to the host MPI until all members, which have all arrived, have mapped its memory.
void await_turn(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL || !engine().busy()) return;
  std::shared_ptr<CommunicatorState> state = communicator_state_of(comm);
  if (state->open_calls() == 0) return;
  BlockingHostCall blocking_call;
  const auto all_cleared = [&] {
    std::lock_guard lock(engine().mutex());
    return state->all_cleared();
  };
  for (Backoff backoff; !all_cleared(); backoff.pause()) engine().progress();
}

// Fairlead starts no collective of its own on the communicator from here on (quirk idup_in_any_order): the
// ranks agree on the memory of no later call.
Duplicating::Duplicating(MPI_Comm comm) {
  if (comm == MPI_COMM_NULL) return;
  std::shared_ptr<CommunicatorState> parent = communicator_state_of(comm);
  if (pool)
    if (std::optional<coll::DuplicateKey> key = parent->expect_duplicate())
      of_thread().expected = std::make_shared<CommunicatorState>(*parent, *key);
  parent->memory().stop();
}

Duplicating::~Duplicating() {
  of_thread().expected.reset();
}

void agree_on_slot(MPI_Comm comm) {
  // If processes may fail, only some members may have made the communicator. They join at its first
  // collective, which the program calls when it knows that all have.
  if (comm == MPI_COMM_NULL || (!pool && !node_limits().compares) || survives_failures()) return;
  const Kept state = communicator_state_of(comm);
  if (pool) state->join();
  state->make_for_comparison();
  // A nonblocking call that needs it could not make it.
  if (node_limits().uniform && state->spans_nodes()) state->make_for_messages();
}

void open_communicator_states(std::unique_ptr<coll::SlotPool> opened) {
  // Communicators that have not left their slots in a former pool still do so.
  static auto& former = *new std::vector<std::unique_ptr<coll::SlotPool>>;
  if (pool) former.push_back(std::move(pool));
  pool = std::move(opened);
  reserve_dummy_memory();
  PMPI_Comm_create_keyval(inherit, forget, &keyval, nullptr);
}

void close_communicator_states() {
  of_thread().recent = {};
  if (keyval == MPI_KEYVAL_INVALID) return;
  if (const Kept self = std::move(of_self)) leave(self);
  void* kept = nullptr;
  int found = 0;
  if (has_world()) PMPI_Comm_get_attr(MPI_COMM_WORLD, keyval, &kept, &found);
  if (found) PMPI_Comm_delete_attr(MPI_COMM_WORLD, keyval);
  PMPI_Comm_free_keyval(&keyval);
}

size_t slots_taken() {
  return pool ? pool->taken_by_me() : 0;
}

}  // namespace fairlead::mpi
