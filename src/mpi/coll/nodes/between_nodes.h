// SPDX-License-Identifier: Apache-2.0
//
// Collectives over a communicator that spans nodes. If all ranks pass device memory, long calls take one of
// two paths: hierarchical_collective.h, if nodes have several ranks and the call blocks, or
// segmented_staging.h. Either all ranks take a path or none does, and no rank sees what memory the others
// pass, so the ranks agree on it (src/coll/memory_agreement.h). Everything else that the choice depends on is
// the same on all ranks. All other calls are staged by each rank for itself.

#pragma once

#include <memory>
#include <optional>

#include "mpi/coll/communicator_state.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {

// Counts a blocking call, of any memory, and learns what nonblocking calls have asked. True if the ranks must
// agree on its memory now: each of them then calls one of the functions below. Call it once for each call.
bool must_agree(const CollectiveCall& call, CommunicatorState& state);
// For a rank that returns from the call with an error: the others wait for its answer.
void decline_between_nodes(const CollectiveCall& call, CommunicatorState& state);
// Returns the call's result, or nothing if not all ranks pass device memory: then the call has not begun.
std::optional<int> run_between_nodes(const CollectiveCall& call, const Regions& regions,
                                     CommunicatorState& state);

// Counts a nonblocking call, of any memory, and finds `segments` and `asks` of it. Less than two segments:
// the call is staged as a whole.
void count_nonblocking(CollectiveCall* call, CommunicatorState& state);
// For a rank that returns from that call with an error.
void decline_nonblocking(const CollectiveCall& call, CommunicatorState& state);
// The number of segments of a persistent call, on whose memory the ranks agree here. Collective over `lent`,
// the communicator that the call has to itself.
uint64_t segments_of_persistent(const CollectiveCall& call, const Regions& regions, CommunicatorState& state,
                                MPI_Comm lent);
std::unique_ptr<Operation> segmented_operation(std::shared_ptr<CommunicatorState> state,
                                               const CollectiveCall& call, Regions regions, uint64_t segments,
                                               std::shared_ptr<MPI_Comm> lent = nullptr);

}  // namespace fairlead::mpi
