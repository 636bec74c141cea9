// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/between_nodes.h"

#include <algorithm>

#include "base/log.h"
#include "base/options.h"
#include "coll/choice.h"
#include "mpi/check/stream_check.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/algorithm_log.h"
#include "mpi/coll/nodes/hierarchical_collective.h"
#include "mpi/coll/nodes/message_collective.h"
#include "mpi/coll/nodes/segmented_operation.h"
#include "mpi/coll/nodes/segmented_staging.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/poll.h"
#include "mpi/core/requests/request.h"
#include "observe/statistics.h"

namespace fairlead::mpi {
namespace {

constexpr const char* waiting = "a collective over several nodes";

// Are all ranks ready?
bool agree(bool ready, MPI_Comm comm) {
  int all = ready;
  await_turn(comm);
  const int result = poll_host(ready ? waiting : nullptr, comm, [&](MPI_Request* request) {
    return real.Iallreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm, request);
  });
  return result == MPI_SUCCESS && all;
}

// Segments that the host MPI moves as a whole are shorter than those that pass through several steps: 1 MiB
// by default.
uint64_t short_segment() {
  return static_cast<uint64_t>(node_limits().segment) / 4;
}

// At least 1: a length of 0 is that of the functions in which no rank knows those of the others.
uint64_t shortest() {
  return static_cast<uint64_t>(std::max<int64_t>(node_limits().from, 1));
}

// From this length on the hierarchy is faster than segments (H200, 1 and 2 ranks in each of two nodes).
uint64_t hierarchy_from() {
  return short_segment() / 4;
}

uint64_t segments_of(const CollectiveCall& call, const CommunicatorState& state, uint64_t length) {
  return SegmentedStaging::segments_of(call, state.position(), length, short_segment());
}

// One segment of a function with a count for each rank would only cost copies from many places.
bool pays(const CollectiveCall& call, const CommunicatorState& state, uint64_t length) {
  return length >= shortest() &&
         (SegmentedStaging::is_even(call, state.position()) || segments_of(call, state, length) > 1);
}

// The class of the call in the agreement on memory: the bytes of its longer buffer, or 0 if no rank knows
// that of the others. Nothing if the call is staged whatever its memory is. The same on all ranks.
std::optional<uint64_t> length_between_nodes(const CollectiveCall& call, const CommunicatorState& state) {
  if (!state.spans_nodes() || coll::choice().must_stage(call.shape().family)) return std::nullopt;
  if (MessageCollective::serves(call)) return 0;
  const std::optional<uint64_t> bytes = SegmentedStaging::length_of(call, state.position());
  return bytes && pays(call, state, *bytes) ? bytes : std::nullopt;
}

void learn(CommunicatorState& state, unsigned function, uint64_t length, bool on_device) {
  state.memory().learn(function, length, on_device ? std::max<uint64_t>(length, 1) : 0);
  if (length == 0 && on_device && state.memory().rule() != coll::MemoryAgreement::Rule::never)
    state.make_for_messages();
}

// All ranks have asked what they learn in this blocking call, since the calls that asked precede it.
void learn_answers(MPI_Comm comm, CommunicatorState& state) {
  for (auto& questions = state.questions(); !questions.empty(); questions.pop_front()) {
    await_ranks(waiting, comm, [&] {
      std::lock_guard lock(engine().mutex());
      return questions.front()->answered();
    });
    const MemoryQuestion& answer = *questions.front();
    learn(state, answer.function(), answer.bytes(), answer.yes());
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

// Does the call, about which the ranks do not agree now, go by messages?
bool known_to_go_by_messages(unsigned function, CommunicatorState& state) {
  using Rule = coll::MemoryAgreement::Rule;
  const Rule rule = state.memory().rule();
  return state.for_messages() && rule != Rule::never &&
         (rule == Rule::at_every_call || state.memory().longest(function, 0) > 0);
}

std::optional<int> run_by_messages(const CollectiveCall& call, Regions& regions,
                                   std::shared_ptr<CommunicatorState> state) {
  if (call.must_agree) {
    const bool agreed = agree(regions.hold_no_host_memory(), call.comm);
    learn(*state, number_of(call.function), 0, agreed);
    if (!agreed || !state->for_messages()) return std::nullopt;
  }
  const auto messages = state->for_messages();
  MessageCollective operation(std::move(state), call, std::move(regions), MessageCollective::Form::blocking,
                              messages);
  return run(operation, MPI_STATUS_IGNORE);
}

}  // namespace

void count_blocking(CollectiveCall* call, CommunicatorState& state) {
  learn_answers(call->comm, state);
  const std::optional<uint64_t> length = length_between_nodes(*call, state);
  if (!length) return;
  const unsigned function = number_of(call->function);
  call->must_agree = state.memory().count(function, *length);
  call->by_messages = *length == 0 && !call->must_agree && known_to_go_by_messages(function, state);
}

void decline_between_nodes(const CollectiveCall& call, CommunicatorState& state) {
  agree(false, call.comm);
  learn(state, number_of(call.function), length_between_nodes(call, state).value_or(0), false);
}

std::optional<int> run_between_nodes(const CollectiveCall& call, Regions& regions,
                                     const std::shared_ptr<CommunicatorState>& kept) {
  if (MessageCollective::serves(call)) return run_by_messages(call, regions, kept);
  CommunicatorState& state = *kept;
  const uint64_t length = *SegmentedStaging::length_of(call, state.position());
  const bool is_long = length >= hierarchy_from();
  const CollectiveCall in_equal_blocks = in_blocks(call, state.position());
  const auto suits = [&] { return is_long && suits_hierarchy(in_equal_blocks, length, state); };
  // All ranks have made the hierarchy or none has.
  bool by_hierarchy = state.has_hierarchy() && suits();
  std::optional<SegmentedStaging> segments;
  SegmentedStaging::SegmentMemory rooms[2];
  MessageRecord record;
  bool ready = regions.on_device();
  if (ready) {
    check_streams(regions);
    record.begin();
    if (!by_hierarchy) {
      segments.emplace(call, state.position(), call.comm, short_segment());
      ready = segments->ready() && segments->make(rooms[0]) && segments->make(rooms[1]);
    }
  }
  const bool agreed = agree(ready, call.comm);
  learn(state, number_of(call.function), length, agreed);
  if (!agreed) return std::nullopt;
  // Calls with equal arguments take one path, because sums may differ in their last bits.
  if (!by_hierarchy) by_hierarchy = suits();

  if (logs_algorithms(state.position()))
    log_algorithm(call, state.position(), regions,
                  by_hierarchy ? "in each node on its GPUs" : "staged in segments", "between nodes");
  const Traffic path = by_hierarchy ? Traffic::collective_between_nodes : Traffic::collective_staged;
  int error = MPI_SUCCESS;
  if (by_hierarchy) {
    // Packed before the ranks made the hierarchy.
    segments.reset();
    for (SegmentedStaging::SegmentMemory& room : rooms) room = {};
    error = run_hierarchical(in_equal_blocks, state);
  } else {
    const uint64_t number = segments_of(call, state, length);
    trace_segments(call, state, number);
    segments->cut(number);
    error = segments->run(rooms);
  }
  record.set_path(path, regions.bytes());
  record.end();
  if (error == MPI_SUCCESS) count(path, regions.bytes());
  if (error == MPI_SUCCESS || (!by_hierarchy && segments->raised())) return error;
  return raise_error(call.comm, error_of_collective(call.comm, MPI_ERR_OTHER), description(regions));
}

void count_nonblocking(CollectiveCall* call, CommunicatorState& state) {
  const std::optional<uint64_t> length = length_between_nodes(*call, state);
  if (!length) return;
  const unsigned function = number_of(call->function);
  coll::MemoryAgreement& memory = state.memory();
  if (*length == 0)
    call->by_messages = known_to_go_by_messages(function, state);
  else if (memory.longest(function, *length) > 0)
    call->segments = segments_of(*call, state, *length);
  if (!memory.count_nonblocking(function, *length)) return;
  call->asks = true;
  state.questions().push_back(std::make_shared<MemoryQuestion>(function, *length));
}

void decline_nonblocking(const CollectiveCall& call, CommunicatorState& state) {
  if (call.asks) state.questions().back()->decline();
}

void agree_on_persistent(CollectiveCall* call, const Regions& regions, CommunicatorState& state,
                         MPI_Comm lent) {
  const std::optional<uint64_t> length = length_between_nodes(*call, state);
  if (!length || state.memory().rule() == coll::MemoryAgreement::Rule::never ||
      !agree(regions.hold_no_host_memory(), lent))
    return;
  if (*length == 0)
    call->by_messages = true;
  else
    call->segments = segments_of(*call, state, *length);
}

std::unique_ptr<Operation> operation_between_nodes(std::shared_ptr<CommunicatorState> state,
                                                   const CollectiveCall& call, Regions regions,
                                                   std::shared_ptr<MPI_Comm> lent) {
  if (!call.by_messages) {
    trace_segments(call, *state, call.segments);
    return std::make_unique<SegmentedOperation>(std::move(state), call, std::move(regions), short_segment(),
                                                call.segments, std::move(lent));
  }
  using Form = MessageCollective::Form;
  const Form form = lent ? Form::persistent : Form::nonblocking;
  const auto messages = lent ? lent : state->for_messages();
  return std::make_unique<MessageCollective>(std::move(state), call, std::move(regions), form, messages);
}

}  // namespace fairlead::mpi
