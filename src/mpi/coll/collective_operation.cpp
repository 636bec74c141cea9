// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/collective_operation.h"

#include "base/log.h"
#include "base/options.h"
#include "coll/choice.h"
#include "coll/nccl_library.h"
#include "mpi/check/stream_check.h"
#include "mpi/coll/algorithm_log.h"
#include "mpi/coll/collective_work.h"
#include "mpi/coll/host_call.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/progress_thread.h"
#include "mpi/core/requests/request.h"
#include "observe/statistics.h"

namespace fairlead::mpi {

using coll::Capability;
using coll::Decision;
using coll::Progress;

namespace {

Capability capability_of(const CollectiveCall& call, const Regions& regions, bool device, bool has_work) {
  if (device) return has_work ? Capability::device : Capability::staged;
  if (call.shape().sent == Blocks::none) return Capability::host;
  return regions.bytes() == 0 ? Capability::nothing : Capability::host;
}

}  // namespace

CollectiveOperation::CollectiveOperation(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call,
                                         Regions regions, Form form, std::shared_ptr<MPI_Comm> lent)
    : Operation(call.comm),
      state_(std::move(state)),
      question_(call.asks ? state_->questions().back() : nullptr),
      call_(call),
      regions_(std::move(regions)),
      blocking_(form == Form::blocking),
      lent_(std::move(lent)) {
  if (!blocking_) {
    kept_.emplace(call_.comm, call_.op, types_in(regions_));
    arrays_.keep(&call_, state_->position());
  }
  if (blocking_ && regions_.on_device()) meeting_ = meet_call_for(call_, regions_, state_->position());
  if (!meeting_) plan(form);
}

void CollectiveOperation::plan(Form form) {
  if (std::exchange(planned_, true)) return;
  const bool device = regions_.on_device();
  // The progress thread launches nonblocking collectives.
  const bool by_nccl = blocking_ || (form == Form::nonblocking && coll::nccl_serves_threads());
  has_work_ = device && work_for(call_, regions_, state_->position(), {by_nccl, !blocking_}, &work_);
  capability_ = capability_of(call_, regions_, device, has_work_);
  // A persistent collective starts later, and more than once: what is known of its memory may be stale by
  // then.
  if (!blocking_) work_.source.found = work_.target.found = {};
  if (form == Form::persistent) work_.receives_in_own_memory = false;
  if (work_.of_all) work_.of_all->result.found = {};
}

int CollectiveOperation::start() {
  check_streams(regions_, &checked_);
  std::lock_guard lock(engine().mutex());
  begin();
  step_ = Step::arriving;
  cleared_ = false;
  error_ = MPI_SUCCESS;
  raised_ = false;
  arrived_with_ = Capability::none;
  why_staged_ = Fallback::chosen_staged;
  report_timer_.restart();
  number_ = state_->begin_call();
  if (!blocking_) state_->start_joining();
  if (!blocking_) progress_thread().help(this);
  if (work_.of_all) progress_thread().stand_by();  // others may ring as soon as this rank has arrived
  advance();
  if (!blocking_ && needs_thread()) progress_thread().wake_for(bytes());
  return MPI_SUCCESS;
}

bool CollectiveOperation::needs_thread() const {
  if (left_to_others()) return false;
  return step_ != Step::over && (step_ != Step::in_host || progress_thread().helps_messages());
}

void CollectiveOperation::advance() {
  if (step_ == Step::arriving && !state_->joined()) return;
  advance_without_host();
  if (step_ == Step::waiting_for_turn) take_turn();
  if (step_ == Step::in_host && !complete()) poll_host();
}

void CollectiveOperation::advance_without_host() {
  if (step_ == Step::arriving) arrive();
  if (step_ == Step::deciding) decide();
  if (step_ == Step::by_nccl) run_by_nccl();
  if (step_ == Step::meeting) run_by_meeting();
  if (step_ == Step::on_gpu) run_on_gpu();
}

// A persistent collective needs its work again.
coll::CollectiveWork CollectiveOperation::take_work() {
  if (!blocking_) return work_;
  return std::move(work_);
}

void CollectiveOperation::arrive() {
  if (!state_->known()) return;
  coll::CollectiveSlot* slot = state_->slot();
  if (!slot) {
    why_staged_ = Fallback::no_shared_node;
    step_ = Step::waiting_for_turn;
    return;
  }
  if (!slot->may_arrive(number_)) return go_on_waiting();
  if (meeting_ && !slot->may_use_record(number_)) return go_on_waiting();
  const bool meets = meeting_ && state_->meeting_place().offers(number_, *meeting_);
  if (!meets) plan();
  Capability capability = meets ? Capability::meets : capability_;
  bool shows = capability == Capability::device || capability == Capability::nothing;
  if ((shows || work_.nccl) && !slot->may_use_record(number_)) return go_on_waiting();
  if (work_.nccl && !state_->all_before_have_arrived(number_)) return;
  if (work_.nccl && state_->nccl().reserve(number_, work_.device)) {
    capability = Capability::nccl;
  } else if (shows) {
    // CPUs that wait in blocking calls gain nothing by that.
    if (!blocking_ && capability == Capability::device) slot->register_words();
    gpu_.emplace(*engine().node(), *slot, state_->node_ranks(), number_, take_work());
    if (!gpu_->expose()) capability = Capability::staged;
  }
  arrived_with_ = capability;
  slot->arrive(number_, capability);
  if (capability == Capability::device && gpu_->is_single_worker())
    std::atomic_thread_fence(std::memory_order_seq_cst);  // of two that arrive together, one sees the other
  else
    engine().node()->ring(state_->node_ranks());
  state_->note_arrival(number_);
  step_ = capability == Capability::host ? Step::waiting_for_turn : Step::deciding;
}

// Can this decision follow from what this rank has announced?
bool CollectiveOperation::is_possible(Decision outcome) const {
  if (outcome == Decision::nccl) return arrived_with_ == Capability::nccl;
  if (outcome == Decision::met) return arrived_with_ == Capability::meets;
  return outcome != Decision::gpu || exports_late() || gpu_.has_value();
}

void CollectiveOperation::decide() {
  using Capabilities = coll::CollectiveSlot::Capabilities;
  Decision outcome =
      state_->slot()->outcome(number_, blocking_ ? Capabilities::stand : Capabilities::may_be_withdrawn);
  if (!is_possible(outcome)) return lose();
  switch (outcome) {
    case Decision::undecided:
      return go_on_waiting();
    case Decision::staged:
      // Members that decided otherwise, because the words are damaged, follow this one if none has started.
      if (gpu_) state_->slot()->give_up(number_);
      if (state_->slot()->workers(number_).are > coll::Workers::Are::each) return lose();
      if (arrived_with_ == Capability::nccl) state_->nccl().release(number_);
      if (arrived_with_ == Capability::meets) state_->meeting_place().run_otherwise(number_, true);
      if (arrived_with_ != Capability::staged) why_staged_ = Fallback::others_staged;
      gpu_.reset();
      step_ = Step::waiting_for_turn;
      return;
    case Decision::gpu:
      if (meeting_) state_->meeting_place().run_otherwise(number_, arrived_with_ == Capability::meets);
      if (exports_late()) expose_late();
      step_ = Step::on_gpu;
      return;
    case Decision::nccl:
      step_ = Step::by_nccl;
      return;
    case Decision::met:
      step_ = Step::meeting;
      if (state_->meeting_place().all_agree(number_, *meeting_)) return;
      state_->meeting_place().run_otherwise(number_, true);
      expose_late();
      step_ = Step::on_gpu;
  }
}

void CollectiveOperation::expose_late() {
  if (arrived_with_ == Capability::nccl) state_->nccl().release(number_);
  plan();
  gpu_.emplace(*engine().node(), *state_->slot(), state_->node_ranks(), number_, take_work());
  gpu_->expose(has_work_);
}

void CollectiveOperation::run_by_nccl() {
  Progress progress = state_->nccl().advance(number_, *work_.nccl);
  if (!cleared_ && state_->nccl().has_launched(number_)) {
    state_->clear(number_);
    cleared_ = true;
  }
  if (progress == Progress::waiting) return go_on_waiting();
  if (progress == Progress::failed && awaits_news()) return;
  if (progress == Progress::refused) {
    expose_late();
    step_ = Step::on_gpu;
    return;
  }
  if (progress == Progress::over) {
    count(Traffic::collective_nccl, regions_.bytes());
    set_path(Traffic::collective_nccl);
  }
  over(progress == Progress::failed ? MPI_ERR_OTHER : MPI_SUCCESS);
}

void CollectiveOperation::run_by_meeting() {
  const Progress progress = state_->meeting_place().advance(number_, *meeting_);
  if (progress == Progress::waiting) return go_on_waiting();
  if (progress == Progress::failed && awaits_news()) return;
  count(Traffic::collective_met, regions_.bytes());
  set_path(Traffic::collective_met);
  over(progress == Progress::failed ? MPI_ERR_OTHER : MPI_SUCCESS);
}

void CollectiveOperation::run_on_gpu() {
  Progress progress = gpu_->advance();
  if (progress == Progress::failed && awaits_news()) return;
  if (progress == Progress::refused) {
    why_staged_ = Fallback::others_staged;
    gpu_.reset();
    step_ = Step::waiting_for_turn;
    return;
  }
  // From here on the operation cannot fall back to the host MPI any more.
  if (!cleared_ && gpu_->all_have_mapped()) {
    state_->clear(number_);
    cleared_ = true;
  }
  if (progress == Progress::waiting) return go_on_waiting();
  const Traffic path = gpu_->done_by_one() ? Traffic::collective_by_one : Traffic::collective_gpu;
  count(path, regions_.bytes());
  set_path(path);
  over(progress == Progress::failed ? MPI_ERR_OTHER : MPI_SUCCESS);
}

void CollectiveOperation::take_turn() {
  if (!state_->has_turn(number_)) return;
  if (regions_.on_device()) count(why_staged_);
  step_ = Step::in_host;
  if (!blocking_ && !needs_thread()) progress_thread().forget(this);
  if (question_) question_->ask(state_->comm(), regions_.hold_no_host_memory());
  // The blocking form is called by finish(), without the engine's lock.
  const int result = blocking_ ? MPI_SUCCESS : call_host();
  state_->clear(number_);
  // Other ranks depend on the end of this call. They need not wait until this rank tests for it.
  state_->end_call(number_);
  if (blocking_)
    complete_.store(true, std::memory_order_release);
  else if (result != MPI_SUCCESS)
    over(result);
}

int CollectiveOperation::call_host() {
  return staged_.begin(call_, regions_, [this](const void* sendbuf, void* recvbuf) {
    const MPI_Comm comm = state_->comm();
    return result_of_host(blocking_ ? block_in_host(call_, comm, sendbuf, recvbuf)
                                    : mpi::call_host(call_, comm, sendbuf, recvbuf, &message_));
  });
}

void CollectiveOperation::poll_host() {
  if (question_ && !question_->answered()) return;
  int here = 0;
  int result = result_of_host(real.Test(&message_, &here, MPI_STATUS_IGNORE));
  if (here || result != MPI_SUCCESS) end_in_host(result);
}

void CollectiveOperation::end_in_host(int result) {
  if (result == MPI_SUCCESS) result = staged_.end(regions_);
  set_path(Traffic::collective_staged);
  over(result);
}

int CollectiveOperation::result_of_host(int result) {
  raised_ = result != MPI_SUCCESS && state_->comm() == call_.comm;
  return result;
}

// The host MPI ends what it has itself.
void CollectiveOperation::end_if_failed(Failures& failures) {
  if (step_ == Step::in_host || step_ == Step::over) return;
  const int failure = failures.of_members(call_.comm);
  if (failure == MPI_SUCCESS || !leave_slot(failures)) return;
  if (question_) question_->decline();
  failure_ = failure;
  over(failure);
}

// False while other members may use this rank's memory.
bool CollectiveOperation::leave_slot(Failures& failures) {
  if (step_ == Step::by_nccl) {
    state_->nccl().abandon_for_all();
    return true;
  }
  if (arrived_with_ == Capability::meets) {
    state_->slot()->give_up(number_);
    if (!state_->meeting_place().abandon()) return false;
  }
  if (step_ != Step::deciding && step_ != Step::on_gpu) return true;
  if (arrived_with_ == Capability::nccl) state_->nccl().release(number_);
  if (!gpu_) {
    state_->slot()->give_up(number_);
    return true;
  }
  std::vector<bool> lives(static_cast<size_t>(state_->position().size));
  for (size_t member = 0; member < lives.size(); ++member)
    lives[member] = !failures.has_failed(call_.comm, static_cast<int>(member));
  return gpu_->abandon(lives);
}

void CollectiveOperation::over(int error) {
  error_ = error;
  if (step_ != Step::in_host) {
    if (!cleared_) state_->clear(number_);
    state_->end_call(number_);
  }
  gpu_.reset();
  staged_ = {};
  step_ = Step::over;
  if (!blocking_) progress_thread().forget(this);
  complete_.store(true, std::memory_order_release);
}

// Looks for damage now and then, and names the ranks that keep the others waiting.
void CollectiveOperation::go_on_waiting() {
  const bool looks = step_ == Step::arriving || step_ == Step::deciding;
  if (looks && rare_look_.due() && state_->slot()->is_damaged(number_)) {
    if (awaits_news()) return;
    return lose();
  }
  const int seconds = report_timer_.due();
  if (seconds == 0) return;
  std::vector<int> ranks;
  for (int member : state_->slot()->missing(number_))
    if (member != state_->position().rank) ranks.push_back(state_->world_rank(member));
  const char* const all_there =
      step_ == Step::arriving ? "others are far behind" : "all are there, but one has not done its part";
  log_line(LogLevel::warn,
           "rank %d has been waiting in collective %llu of a communicator of %d ranks for %d s; %s%s",
           state_->world_rank(state_->position().rank), static_cast<unsigned long long>(number_),
           state_->position().size, seconds,
           ranks.empty() ? all_there : "not arrived yet: ", ranks_in_words(ranks).c_str());
}

void CollectiveOperation::lose() {
  log_line(LogLevel::error, "another process has damaged the decision on a collective");
  if (arrived_with_ != Capability::none) state_->slot()->give_up(number_);
  if (arrived_with_ == Capability::meets) state_->meeting_place().abandon();
  over(MPI_ERR_OTHER);
}

// This rank is about to enter a host MPI call that cannot be polled. An undecided collective goes to the host
// MPI, which progresses it inside that call; the progress thread continues a collective that runs on the GPU,
// or by NCCL.
void CollectiveOperation::quiesce() {
  if (blocking_) return;
  if (step_ == Step::arriving && state_->known() && state_->slot()) {
    if (state_->slot()->may_arrive(number_)) {
      state_->slot()->arrive(number_,
                             capability_ == Capability::host ? Capability::host : Capability::staged);
      step_ = Step::deciding;
    } else {
      state_->slot()->go_ahead(number_);
      step_ = Step::waiting_for_turn;
    }
    state_->note_arrival(number_);
  }
  if (step_ == Step::deciding) {
    state_->slot()->withdraw(number_);
    engine().node()->ring(state_->node_ranks());
  }
  advance();
}

// A collective that runs on the GPU or by NCCL may still be refused. It blocks the later collectives until
// all members have mapped its memory, or until it is launched.
bool CollectiveOperation::quiesced() const {
  if (blocking_ || step_ == Step::arriving) return true;
  return cleared_ || step_ == Step::in_host || step_ == Step::over;
}

// A collective of host memory alone does not count as a device message.
void CollectiveOperation::set_path(Traffic path) {
  if (!regions_.on_device()) return;
  record_.set_path(path, regions_.bytes());
  if (logs_algorithms(state_->position())) log_path(path);
}

void CollectiveOperation::log_path(Traffic path) const {
  const bool nccl = path == Traffic::collective_nccl, staged = path == Traffic::collective_staged,
             met = path == Traffic::collective_met;
  if (path == Traffic::collective_by_one)
    return log_algorithm(call_, state_->position(), regions_, "one rank for all", "by FAIRLEAD_COLL_BY_ONE");
  log_algorithm(call_, state_->position(), regions_,
                nccl     ? "nccl"
                : staged ? "staged"
                : met    ? "meet"
                         : coll::row_of(work_.algorithm).name.data(),
                staged ? to_string(why_staged_)
                       : coll::choice().decided_by(call_.shape().family,
                                                   largest_buffer(call_, regions_, state_->position()),
                                                   state_->position().size, {.nccl = nccl, .meet = met}));
}

int CollectiveOperation::finish(MPI_Status* status) {
  if (step_ == Step::in_host) end_in_host(call_host());
  record_.end();
  set_empty(status);
  return error_ == MPI_SUCCESS || raised_ ? error_ : raise(error_);
}

void CollectiveOperation::describe(MPI_Status* status) {
  set_empty(status);
}

int run_collective(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call, Regions regions) {
  if (const int error = state->join(); error != MPI_SUCCESS) return error;
  CollectiveOperation operation(std::move(state), call, std::move(regions),
                                CollectiveOperation::Form::blocking);
  return run(operation, MPI_STATUS_IGNORE);
}

}  // namespace fairlead::mpi
