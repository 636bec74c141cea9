// SPDX-License-Identifier: Apache-2.0
//
// Collectives over a communicator that spans nodes. If all ranks pass device memory, a call takes one of
// three paths: message_collective.h, where no rank knows the lengths of the others; else, if it is long,
// hierarchical_collective.h, if nodes have several ranks and the call blocks, or segmented_staging.h. Either
// all ranks take a path or none does, and no rank sees what memory the others pass, so the ranks agree on it
// (src/coll/memory_agreement.h). Everything else that the choice depends on is the same on all ranks. All
// other calls are staged by each rank for itself.

#pragma once

#include <memory>
#include <optional>

#include "mpi/coll/communicator_state.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {

// Counts a blocking call, of any memory, and learns what nonblocking calls have asked. Finds `must_agree` and
// `by_messages` of the call. If either is true, each rank then calls one of the functions below. Call it once
// for each call.
void count_blocking(CollectiveCall* call, CommunicatorState& state);
// For a rank that must agree and returns from the call with an error: the others wait for its answer.
void decline_between_nodes(const CollectiveCall& call, CommunicatorState& state);
// Returns the call's result, or nothing if not all ranks pass device memory: then the call has not begun, and
// `regions` are untouched.
std::optional<int> run_between_nodes(const CollectiveCall& call, Regions& regions,
                                     const std::shared_ptr<CommunicatorState>& state);

// Counts a nonblocking call, of any memory, and finds `by_messages`, `segments` and `asks` of it. If it goes
// not by messages and in less than two segments, it is staged as a whole.
void count_nonblocking(CollectiveCall* call, CommunicatorState& state);
// For a rank that returns from that call with an error.
void decline_nonblocking(const CollectiveCall& call, CommunicatorState& state);
// Finds the same of a persistent call, on whose memory the ranks agree here. Collective over `lent`, the
// communicator that the call has to itself.
void agree_on_persistent(CollectiveCall* call, const Regions& regions, CommunicatorState& state,
                         MPI_Comm lent);
inline bool goes_between_nodes(const CollectiveCall& call) {
  return call.by_messages || call.segments > 1;
}
// For such a call, nonblocking or persistent.
std::unique_ptr<Operation> operation_between_nodes(std::shared_ptr<CommunicatorState> state,
                                                   const CollectiveCall& call, Regions regions,
                                                   std::shared_ptr<MPI_Comm> lent = nullptr);

}  // namespace fairlead::mpi
