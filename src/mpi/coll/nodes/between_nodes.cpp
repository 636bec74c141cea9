// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/between_nodes.h"

#include "base/log.h"
#include "base/options.h"
#include "base/report_timer.h"
#include "base/statistics.h"
#include "coll/choice.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/collective_work.h"
#include "mpi/coll/nodes/hierarchical_collective.h"
#include "mpi/coll/nodes/segmented_staging.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/record.h"
#include "mpi/core/request.h"
#include "mpi/core/stream_check.h"

namespace fairlead::mpi {
namespace {

// Returns whether all ranks say yes. The ranks wait here for late ones, and the host MPI does not tell which
// are late.
bool all_say(bool yes, const CollectiveCall& call) {
  int all = yes, here = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  await_turn(call.comm);
  if (real.Iallreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, call.comm, &request) != MPI_SUCCESS)
    return false;
  ReportTimer report_timer;
  for (Backoff backoff; real.Test(&request, &here, MPI_STATUS_IGNORE) == MPI_SUCCESS && !here;
       backoff.pause()) {
    engine().progress();
    if (!yes || !report_timer.is_over()) continue;
    int size = 0;
    PMPI_Comm_size(call.comm, &size);
    log_line(LogLevel::warn,
             "a collective over several nodes has been waiting for %d s; not there yet: some of the %d ranks",
             static_cast<int>(options().stall_report_s), size);
  }
  return here && all;
}

// Segments that the host MPI moves as a whole are shorter than those that pass through several steps: 1 MiB
// by default.
uint64_t short_segment() {
  return static_cast<uint64_t>(node_limits().segment) / 4;
}

// From this length on the hierarchy is faster than segments (2 H200 with 1 and 2 ranks each as two nodes).
uint64_t hierarchy_from(const CollectiveCall& call) {
  return call.reduces() ? 4 * short_segment() : short_segment();
}

}  // namespace

bool must_agree(const CollectiveCall& call, CommunicatorState& state) {
  if (!state.spans_nodes()) return false;
  const uint64_t bytes = SegmentedStaging::longest_side(call, state.position());
  return bytes > 0 && static_cast<int64_t>(bytes) >= node_limits().from &&
         !coll::choice().must_stage(family_of(call.function)) &&
         state.memory().count(static_cast<unsigned>(call.function), bytes);
}

void decline_between_nodes(const CollectiveCall& call, CommunicatorState& state) {
  const uint64_t bytes = SegmentedStaging::longest_side(call, state.position());
  all_say(false, call);
  state.memory().learn(static_cast<unsigned>(call.function), bytes, false);
}

std::optional<int> run_between_nodes(const CollectiveCall& call, const Regions& regions,
                                     CommunicatorState& state) {
  const uint64_t bytes = SegmentedStaging::longest_side(call, state.position());
  const bool is_long = bytes >= hierarchy_from(call);
  // All ranks have made the hierarchy or none has.
  bool by_hierarchy = is_long && state.has_hierarchy() && suits_hierarchy(call, state);
  std::optional<SegmentedStaging> segments;
  MessageRecord record;
  bool ready = regions.on_device();
  if (ready) {
    check_streams(regions.read.device(), BufferUse::sent);
    check_streams(regions.written.device(), BufferUse::received);
    record.begin();
    if (!by_hierarchy) ready = segments.emplace(call, state.position(), short_segment()).ready();
  }
  const bool all_ready = all_say(ready, call);
  state.memory().learn(static_cast<unsigned>(call.function), bytes, all_ready);
  if (!all_ready) return std::nullopt;
  // Calls with equal arguments take one path, because sums may differ in their last bits.
  if (is_long && !by_hierarchy) by_hierarchy = suits_hierarchy(call, state);

  const Traffic path = by_hierarchy ? Traffic::collective_between_nodes : Traffic::collective_staged;
  const int error = by_hierarchy ? run_hierarchical(call, state) : segments->run();
  record.took(path, regions.bytes());
  record.end();
  if (error == MPI_SUCCESS) count(path, regions.bytes());
  if (error == MPI_SUCCESS || (!by_hierarchy && segments->raised())) return error;
  return raise_error(call.comm, MPI_ERR_OTHER, in_words(regions));
}

}  // namespace fairlead::mpi
