// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/segmented_operation.h"

#include <algorithm>

#include "mpi/check/stream_check.h"
#include "mpi/coll/staging.h"
#include "mpi/core/requests/request.h"
#include "observe/statistics.h"

namespace fairlead::mpi {
namespace {

// While one segment is in the host MPI, others are copied in both directions.
constexpr size_t flights_at_once = 4;

}  // namespace

SegmentedOperation::SegmentedOperation(std::shared_ptr<CommunicatorState> state, const CollectiveCall& call,
                                       Regions regions, uint64_t segment, uint64_t segments,
                                       std::shared_ptr<MPI_Comm> lent)
    : Operation(call.comm),
      state_(std::move(state)),
      question_(call.asks ? state_->questions().back() : nullptr),
      lent_(std::move(lent)),
      call_(call),
      regions_(std::move(regions)),
      kept_(call.comm, call.op, types_in(regions_)),
      segment_(segment),
      segments_(segments) {
  arrays_.keep(&call_, state_->position());
}

int SegmentedOperation::start() {
  check_streams(regions_, &checked_);
  std::lock_guard lock(engine().mutex());
  begin();
  loaded_ = called_ = ended_ = 0;
  hurries_ = false;
  state_->joined();
  number_ = state_->begin_call();
  staging_.emplace(call_, state_->position(), state_->comm(), segment_);
  staging_->cut(segments_);
  if (!staging_->ready()) staging_->fail();
  advance();
  return MPI_SUCCESS;
}

void SegmentedOperation::advance() {
  if (complete()) return;
  while (load_next()) {
  }
  while (call_next(false)) {
  }
  uint64_t segment = ended_;
  for (Flight& flight : flights_) advance(flight, segment++);
  for (; !flights_.empty() && flights_.front().step == Flight::Step::over; ++ended_) {
    spare_.push_back(std::move(flights_.front().room));
    flights_.pop_front();
  }
  if (ended_ == segments_ && (!question_ || question_->answered())) over(staging_->end());
}

// Starts to copy the next segment to host memory. False if none is left, or if it has to wait.
bool SegmentedOperation::load_next() {
  if (loaded_ == segments_ || (flights_.size() >= flights_at_once && !hurries_)) return false;
  if (spare_.empty() && !staging_->make(spare_.emplace_back())) {
    // Segments that are on their way make room.
    if (!flights_.empty()) {
      spare_.clear();
      return false;
    }
    if (!staging_->make_dummy(spare_.back())) end_for_lack_of_addresses(state_->comm());
  }
  flights_.emplace_back(std::move(spare_.back()));
  spare_.pop_back();
  staging_->load(flights_.back().room, loaded_++);
  return true;
}

// Passes the next segment to the host MPI. False if there is none, or if it has to wait.
bool SegmentedOperation::call_next(bool wait) {
  if (called_ == loaded_ || !state_->has_turn(number_)) return false;
  Flight& flight = flights_[called_ - ended_];
  if (!staging_->loaded(flight.room, wait)) return false;
  if (question_ && called_ == 0) question_->ask(state_->comm(), regions_.on_device());
  staging_->call_host(flight.room, called_, &flight.request);
  flight.step = Flight::Step::in_host;
  if (++called_ < segments_) return true;
  state_->clear(number_);
  // Other ranks depend on the end of this call. They need not wait until this rank tests for it.
  state_->end_call(number_);
  return false;
}

void SegmentedOperation::advance(Flight& flight, uint64_t segment) {
  if (flight.step == Flight::Step::in_host) {
    int here = 0;
    const int result = real.Test(&flight.request, &here, MPI_STATUS_IGNORE);
    staging_->note_host(result);
    if (!here && result == MPI_SUCCESS) return;
    staging_->store(flight.room, segment);
    flight.step = Flight::Step::landing;
  }
  if (flight.step == Flight::Step::landing && staging_->stored(flight.room, false))
    flight.step = Flight::Step::over;
}

void SegmentedOperation::over(int error) {
  error_ = error;
  raised_ = staging_->raised();
  if (regions_.on_device()) {
    if (error == MPI_SUCCESS) count(Traffic::collective_staged, regions_.bytes());
    record_.set_path(Traffic::collective_staged, regions_.bytes());
  }
  spare_.clear();
  staging_.reset();
  complete_.store(true, std::memory_order_release);
}

// The host MPI gets all that is left, because it makes progress where Fairlead cannot. If there is no memory
// for that, the segments that are on their way make room for the next ones.
void SegmentedOperation::quiesce() {
  if (complete()) return;
  hurries_ = true;
  while (load_next()) {
  }
  while (call_next(true)) {
  }
}

int SegmentedOperation::finish(MPI_Status* status) {
  record_.end();
  set_empty(status);
  return error_ == MPI_SUCCESS || raised_ ? error_ : raise(error_of_collective(comm_, error_));
}

void SegmentedOperation::describe(MPI_Status* status) {
  set_empty(status);
}

}  // namespace fairlead::mpi
