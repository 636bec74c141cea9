// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/between_nodes.h"

#include <algorithm>

#include "base/log.h"
#include "base/options.h"
#include "base/report_timer.h"
#include "base/statistics.h"
#include "coll/choice.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/collective_work.h"
#include "mpi/coll/nodes/hierarchical_collective.h"
#include "mpi/coll/nodes/segmented_operation.h"
#include "mpi/coll/nodes/segmented_staging.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/record.h"
#include "mpi/core/request.h"
#include "mpi/core/stream_check.h"

namespace fairlead::mpi {
namespace {

// Makes progress until `done`. The ranks wait here for late ones, and the host MPI does not tell which are
// late.
template <class Done>
void await_ranks(MPI_Comm comm, bool reports, const Done& done) {
  ReportTimer report_timer;
  for (Backoff backoff; !done(); backoff.pause()) {
    engine().progress();
    if (!reports || !report_timer.is_over()) continue;
    int size = 0;
    PMPI_Comm_size(comm, &size);
    log_line(LogLevel::warn,
             "a collective over several nodes has been waiting for %d s; not there yet: some of the %d ranks",
             static_cast<int>(options().stall_report_s), size);
  }
}

// Returns the longest of these lengths of all ranks, or 0 if a rank passes 0.
uint64_t agree_on_length(uint64_t bytes, const CollectiveCall& call) {
  int64_t all[] = {bytes > 0, -static_cast<int64_t>(bytes)};
  int here = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  await_turn(call.comm);
  if (real.Iallreduce(MPI_IN_PLACE, all, 2, MPI_INT64_T, MPI_MIN, call.comm, &request) != MPI_SUCCESS)
    return 0;
  await_ranks(call.comm, bytes > 0,
              [&] { return real.Test(&request, &here, MPI_STATUS_IGNORE) != MPI_SUCCESS || here; });
  return here && all[0] ? static_cast<uint64_t>(-all[1]) : 0;
}

// Segments that the host MPI moves as a whole are shorter than those that pass through several steps: 1 MiB
// by default.
uint64_t short_segment() {
  return static_cast<uint64_t>(node_limits().segment) / 4;
}

// At least 1: a length of 0 says that not all ranks are ready.
uint64_t shortest() {
  return static_cast<uint64_t>(std::max<int64_t>(node_limits().from, 1));
}

// A rank without bytes passes any kind of memory.
bool has_no_part(uint64_t length, const Regions& regions) {
  return length == 0 && regions.bytes() == 0;
}

// From this length on the hierarchy is faster than segments (H200, 1 and 2 ranks in each of two nodes).
uint64_t hierarchy_from() {
  return short_segment() / 4;
}

// Is a call with this longest buffer pipelined? One segment of a function with a count for each rank, or
// among neighbours, would only cost copies from many places.
bool pays(const CollectiveCall& call, const CommunicatorState& state, uint64_t longest) {
  return longest >= shortest() &&
         (SegmentedStaging::is_even(call, state.position()) ||
          SegmentedStaging::segments_of(call, state.position(), longest, short_segment()) > 1);
}

// The length of the call if its class may be pipelined (SegmentedStaging::length_of()).
std::optional<uint64_t> length_between_nodes(const CollectiveCall& call, const CommunicatorState& state) {
  if (!state.spans_nodes()) return std::nullopt;
  const std::optional<uint64_t> bytes = SegmentedStaging::length_of(call, state.position());
  if (!bytes || (*bytes > 0 && !pays(call, state, *bytes)) ||
      coll::choice().must_stage(family_of(call.function)))
    return std::nullopt;
  return bytes;
}

// This rank's part in the agreement: the bytes of its longer buffer, if the class of the call has no length.
uint64_t own_length(uint64_t length, const Regions& regions) {
  return length > 0
             ? length
             : static_cast<uint64_t>(std::max({regions.read.bytes, regions.written.bytes, MPI_Count{1}}));
}

// All ranks have asked what they learn in this blocking call, since the calls that asked precede it.
void learn_answers(MPI_Comm comm, CommunicatorState& state) {
  for (auto& questions = state.questions(); !questions.empty(); questions.pop_front()) {
    await_ranks(comm, true, [&] {
      std::lock_guard lock(engine().mutex());
      return questions.front()->answered();
    });
    questions.front()->learn(state.memory());
  }
}

unsigned number_of(Collective function) {
  return static_cast<unsigned>(function);
}

void trace_segments(const CollectiveCall& call, const CommunicatorState& state, uint64_t segments) {
  if (state.position().rank == 0 && log_enabled(LogLevel::trace))
    log_line(LogLevel::trace, "collective %u of %d ranks in %llu segments", number_of(call.function),
             state.position().size, static_cast<unsigned long long>(segments));
}

}  // namespace

bool must_agree(const CollectiveCall& call, CommunicatorState& state) {
  learn_answers(call.comm, state);
  const std::optional<uint64_t> length = length_between_nodes(call, state);
  return length && state.memory().count(number_of(call.function), *length);
}

void decline_between_nodes(const CollectiveCall& call, CommunicatorState& state) {
  agree_on_length(0, call);
  if (const std::optional<uint64_t> length = SegmentedStaging::length_of(call, state.position()))
    state.memory().learn(number_of(call.function), *length, 0);
}

std::optional<int> run_between_nodes(const CollectiveCall& call, const Regions& regions,
                                     CommunicatorState& state) {
  const uint64_t length = *SegmentedStaging::length_of(call, state.position());
  const bool is_long = length >= hierarchy_from();
  const CollectiveCall in_equal_blocks = in_blocks(call, state.position());
  const auto suits = [&] { return is_long && suits_hierarchy(in_equal_blocks, length, state); };
  // All ranks have made the hierarchy or none has.
  bool by_hierarchy = state.has_hierarchy() && suits();
  std::optional<SegmentedStaging> segments;
  SegmentedStaging::Room rooms[2];
  MessageRecord record;
  bool ready = regions.on_device() || has_no_part(length, regions);
  if (ready) {
    check_streams(regions.read.device(), BufferUse::sent);
    check_streams(regions.written.device(), BufferUse::received);
    record.begin();
    if (!by_hierarchy) {
      segments.emplace(call, state.position(), call.comm, short_segment());
      ready = segments->ready() && segments->make(rooms[0]) && segments->make(rooms[1]);
    }
  }
  const uint64_t longest = agree_on_length(ready ? own_length(length, regions) : 0, call);
  const bool agreed = pays(call, state, longest);
  state.memory().learn(number_of(call.function), length, agreed ? longest : 0);
  if (!agreed) return std::nullopt;
  // Calls with equal arguments take one path, because sums may differ in their last bits.
  if (!by_hierarchy) by_hierarchy = suits();

  const Traffic path = by_hierarchy ? Traffic::collective_between_nodes : Traffic::collective_staged;
  int error = MPI_SUCCESS;
  if (by_hierarchy) {
    error = run_hierarchical(in_equal_blocks, state);
  } else {
    const uint64_t number = SegmentedStaging::segments_of(call, state.position(), longest, short_segment());
    trace_segments(call, state, number);
    segments->cut(number);
    error = segments->run(rooms);
  }
  record.took(path, regions.bytes());
  record.end();
  if (error == MPI_SUCCESS) count(path, regions.bytes());
  if (error == MPI_SUCCESS || (!by_hierarchy && segments->raised())) return error;
  return raise_error(call.comm, MPI_ERR_OTHER, in_words(regions));
}

void count_nonblocking(CollectiveCall* call, CommunicatorState& state) {
  const std::optional<uint64_t> length = length_between_nodes(*call, state);
  // All ranks must know the length now.
  if (!length || *length == 0) return;
  const unsigned function = number_of(call->function);
  coll::MemoryAgreement& memory = state.memory();
  if (memory.longest(function, *length) > 0)
    call->segments = SegmentedStaging::segments_of(*call, state.position(), *length, short_segment());
  if (!memory.count_nonblocking(function, *length)) return;
  call->asks = true;
  state.questions().push_back(std::make_shared<MemoryQuestion>(function, *length));
}

void decline_nonblocking(const CollectiveCall& call, CommunicatorState& state) {
  if (call.asks) state.questions().back()->decline();
}

uint64_t segments_of_persistent(const CollectiveCall& call, const Regions& regions, CommunicatorState& state,
                                MPI_Comm lent) {
  const std::optional<uint64_t> length = length_between_nodes(call, state);
  if (!length || state.memory().rule() == coll::MemoryAgreement::Rule::never) return 1;
  CollectiveCall on_lent = call;
  on_lent.comm = lent;
  const bool ready = regions.on_device() || has_no_part(*length, regions);
  const uint64_t longest = agree_on_length(ready ? own_length(*length, regions) : 0, on_lent);
  if (!pays(call, state, longest)) return 1;
  return SegmentedStaging::segments_of(call, state.position(), longest, short_segment());
}

std::unique_ptr<Operation> segmented_operation(std::shared_ptr<CommunicatorState> state,
                                               const CollectiveCall& call, Regions regions, uint64_t segments,
                                               std::shared_ptr<MPI_Comm> lent) {
  trace_segments(call, *state, segments);
  return std::make_unique<SegmentedOperation>(std::move(state), call, std::move(regions), short_segment(),
                                              segments, std::move(lent));
}

}  // namespace fairlead::mpi
