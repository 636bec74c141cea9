// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/engine.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/options.h"
#include "base/system/processor.h"
#include "device/buffer_pool.h"
#include "device/copies/copy.h"
#include "device/ipc_registry.h"
#include "device/registered_memory.h"
#include "device/unused.h"
#include "kernels/reduce.h"
#include "mpi/abi/comm_self.h"
#include "mpi/check/call_site.h"
#include "mpi/core/forwarded_receives.h"
#include "mpi/core/hooks.h"
#include "mpi/core/operation.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/record.h"
#include "mpi/failures/failures.h"

namespace fairlead::mpi {
namespace {

constexpr unsigned rounds_between_nudges = 4;
constexpr unsigned starts_between_rounds = 8;
// The clock is not read in each round.
constexpr unsigned rounds_between_looks = 16;
constexpr std::chrono::milliseconds between_looks_for_failures{1};
// A program that waits for what it has started calls MPI again sooner.
constexpr std::chrono::microseconds shortest_computation{4};

}  // namespace

Backoff::Backoff() {
  engine().attend(1);
}
Backoff::~Backoff() {
  engine().attend(-1);
}

void Backoff::pause() {
  // A peer on another core answers within a few microseconds. After that, yield this core to others.
  constexpr int spin_rounds = 100;
  if (idle_ == 0) {
    device::close_forgotten(false);
    device::end_unused_again();
    kernels::load_missed_code();
  }
  if (idle_ >= spin_rounds) {
    sched_yield();
  } else {
    ++idle_;
    relax();
  }
}

constinit std::atomic<Engine*> detail::engine{nullptr};

Engine* detail::make_engine() {
  // Never destroyed: other threads may still be in MPI calls when the process exits.
  static auto* only = new Engine;
  engine.store(only, std::memory_order_release);
  return only;
}

void Engine::open(std::unique_ptr<node::Node> node, const node::Nonce& nonce, MPI_Comm self, MPI_Comm silent,
                  bool threads) {
  if (threads) forwarded_receives().watch();
  std::lock_guard lock(mutex_);
  // A thread in the middle of a call may still use the former node.
  static auto& former = *new std::vector<std::unique_ptr<node::Node>>;
  if (node_) former.push_back(std::move(node_));
  keep_busy(threads - threads_);
  threads_ = threads;
  self_ = self;
  set_own_comm_self(self);
  silent_ = silent;
  node_ = std::move(node);
  nonce_ = nonce;
  if (node_) last_progress_.resize(static_cast<size_t>(node_->size()));
  count_held_off_in(node_ ? &node_->mine().rts_held_off : nullptr);
  int ranks = 1;
  PMPI_Comm_size(silent, &ranks);
  spans_nodes_ = !node_ || ranks != node_->size();
  progress_thread().use(node_ ? &node_->mine().doorbell : nullptr);
}

void Engine::allow_threads() {
  forwarded_receives().watch();
  if (!threads_) keep_busy(1);
  threads_ = true;
}

void Engine::release_imports() {
  std::lock_guard lock(mutex_);
  // No peer can request these bytes any more.
  kept_.clear();
  // Leaks these operations, because the host MPI may still be sending their bytes to other nodes. For the
  // same reason nobody frees operations with a deferred free that have not ended.
  for (auto& operation : ended_) (void)operation.release();
  ended_.clear();
  device::forget_imports(-1);
  device::close_forgotten(true);
}

Engine::Counts Engine::counts() {
  std::lock_guard lock(mutex_);
  return {operations_.size(), by_request_.size(), kept_.size()};
}

void Engine::release_exports() {
  if (!device::runtime()) return;
  device::unregister_memory();
  device::pool_release();
  device::end_unused_again(device::Again::at_once);
}

void Engine::add(Operation* operation) {
  std::lock_guard lock(mutex_);
  operations_.add(operation);
  keep_busy(1);
  // Another thread is blocked in the host MPI. This thread may block there too, or leave MPI.
  if (blocking_calls_ > 0) operation->quiesce();
}

void Engine::remove(Operation* operation) {
  std::lock_guard lock(mutex_);
  take_out(operation);
}

void Engine::take_out(Operation* operation) {
  if (!operations_.remove(operation)) return;
  starts_.store(0, std::memory_order_relaxed);
  if (std::exchange(operation->is_long, false)) progress_thread().end_long();
  keep_busy(-1);
  keep(operation->take_unfinished_rendezvous());
}

Engine::State Engine::state() {
  std::lock_guard lock(mutex_);
  bool moves = false, awaits = operations_.any_awaits();
  operations_.for_each_active([&](Operation* operation) {
    if (!operation->complete()) (operation->worth_watching() ? moves : awaits) = true;
  });
  return moves ? State::moves : awaits ? State::awaits : State::idle;
}

std::vector<std::string> Engine::unfinished_calls() {
  std::vector<std::string> calls;
  std::lock_guard lock(mutex_);
  for (const auto& [request, operation] : by_request_)
    calls.push_back(operation->call + ", " + operation->description() + ", was never " +
                    (operation->active ? "completed" : "freed"));
  return calls;
}

void Engine::bind(MPI_Request request, Operation* operation) {
  static const bool names_calls = options().check.contains("leaks");
  if (names_calls) operation->call = std::string(name_of_call()) + " at " + find_call_site().place;
  std::lock_guard lock(mutex_);
  by_request_[request] = operation;
}

void Engine::unbind(MPI_Request request) {
  std::lock_guard lock(mutex_);
  by_request_.erase(request);
}

Operation* Engine::find(MPI_Request request) {
  if (request == MPI_REQUEST_NULL) return nullptr;
  std::lock_guard lock(mutex_);
  auto found = by_request_.find(request);
  return found == by_request_.end() ? nullptr : found->second;
}

void Engine::defer_free(std::unique_ptr<Operation> operation) {
  std::lock_guard lock(mutex_);
  // No caller will wait for it, so its timeout starts now.
  operation->start_waiting();
  operation->free_deferred = true;
  Operation* free_deferred = operation.release();
  if (free_deferred->complete()) end_deferred(free_deferred);
}

void Engine::progress() {
  for (const Hooks& hooks : all_hooks())
    if (hooks.poll) hooks.poll();
  // While another thread makes progress, this one has nothing to add.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  progress_locked();
  auto ended = std::move(ended_);
  ended_.clear();
  lock.unlock();
  MPI_Status ignored;
  for (auto& operation : ended) operation->finish(&ignored);
}

bool Engine::progress_at_start(bool soon) {
  const unsigned before = starts_.fetch_add(1, std::memory_order_relaxed);
  const bool now =
      (soon && before < starts_between_rounds) || before % starts_between_rounds == starts_between_rounds - 1;
  if (now) progress();
  return now;
}

// Operations that wait for shared memory or the GPU make no host MPI call. The host MPI, however, progresses
// its own messages, which a peer may be waiting for, only inside its calls. A probe on a communicator on
// which nobody sends makes that progress. The communicator must span the job, because for a message to self
// some MPIs poll nothing outside the process.
void Engine::nudge_host() {
  int found;
  PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, silent_, &found, MPI_STATUS_IGNORE);
}

// An operation that fails here is taken out of the schedule in its next turn.
void Engine::look_for_failures() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_for_failures_ < between_looks_for_failures) return;
  looked_for_failures_ = now;
  Failures failures;
  operations_.for_each([&](Operation* operation) {
    if (!operation->complete()) operation->end_if_failed(failures);
  });
  if (!failures.any() || !node_) return;
  for (auto& rendezvous : kept_)
    if (failures.has_failed(node_->world_rank(rendezvous->receiver()))) rendezvous->abandon(false);
}

void Engine::end_deferred(Operation* operation) {
  take_out(operation);
  ended_.emplace_back(operation);
}

void Engine::progress_locked() {
  ++rounds_;
  operations_.advance([this](Operation* operation) {
    if (operation->free_deferred && operation->complete()) end_deferred(operation);
  });
  // A receive that has polled for its message has already called the host MPI.
  if (!operations_.any_awaits() && rounds_ % rounds_between_nudges == 0) nudge_host();
  if (survives_failures() && rounds_ % rounds_between_looks == 0) look_for_failures();
  for (const Hooks& hooks : all_hooks())
    if (hooks.advance) hooks.advance();
  device::start_enqueued();
  std::erase_if(kept_, [&](auto& rendezvous) {
    rendezvous->advance();
    if (rendezvous->finished()) keep_busy(-1);
    return rendezvous->finished();
  });
  if (blocking_calls_ > 0) quiesce();
}

void Engine::quiesce() {
  operations_.for_each_active([](Operation* operation) { operation->quiesce(); });
  for (auto& rendezvous : kept_) rendezvous->flush();
}

bool Engine::quiesced() {
  bool all = true;
  operations_.for_each_active([&](Operation* operation) { all &= operation->quiesced(); });
  return all && std::none_of(kept_.begin(), kept_.end(),
                             [](auto& rendezvous) { return rendezvous->short_of_memory(); });
}

void Engine::wait(Operation& operation) {
  operation.start_waiting();
  if (operation.complete()) return;
  for (Backoff backoff; !operation.complete(); backoff.pause()) progress();
}

void Engine::keep(std::unique_ptr<p2p::RendezvousSend> rendezvous) {
  if (!rendezvous) return;
  kept_.push_back(std::move(rendezvous));
  keep_busy(1);
}

// Every waiting send needs the time in every round, so the clock is read once for all of them.
std::chrono::steady_clock::time_point Engine::time_of_round() {
  if (timed_round_ != rounds_) {
    time_of_round_ = std::chrono::steady_clock::now();
    timed_round_ = rounds_;
  }
  return time_of_round_;
}

bool Engine::timed_out(int receiver, std::chrono::steady_clock::time_point waiting_since) {
  auto since = std::max(waiting_since, last_progress_[static_cast<size_t>(receiver)]);
  return time_of_round() - since > std::chrono::microseconds(options().eager_timeout_us);
}

void Engine::note_progress_of(int receiver) {
  last_progress_[static_cast<size_t>(receiver)] = time_of_round();
}

void Engine::attend(int change) {
  const int before = attending_.fetch_add(change);
  if (before != 0 && before + change != 0) return;
  if (before == 0) {
    const uint64_t since = ticks() - last_start_.load(std::memory_order_relaxed);
    program_computed_.store(since > ticks_in(shortest_computation), std::memory_order_relaxed);
  }
  if (node_) node_->mine().polls.store(before == 0, std::memory_order_relaxed);
  progress_thread().note_attended(before == 0);
}

void Engine::enter_blocking_call() {
  std::unique_lock lock(mutex_);
  for (Backoff backoff;;) {
    progress_locked();
    quiesce();
    if (quiesced()) break;
    lock.unlock();
    backoff.pause();
    lock.lock();
  }
  ++blocking_calls_;
  if (node_) node_->mine().blocked_in_host.store(1, std::memory_order_release);
}

void Engine::leave_blocking_call() {
  std::lock_guard lock(mutex_);
  if (--blocking_calls_ == 0 && node_) node_->mine().blocked_in_host.store(0, std::memory_order_release);
}

}  // namespace fairlead::mpi
