// SPDX-License-Identifier: Apache-2.0
//
// Blocking collectives on device memory over a communicator that spans nodes, by its node hierarchy. Within
// each node they run on the GPU, and each member handles a slice of the message. Between the nodes, the
// members with the same local rank transfer their slices through host memory and the host MPI, while the next
// piece of the message is on the GPU.

#pragma once

#include "mpi/coll/communicator_state.h"

namespace fairlead::mpi {

// Can this call, with a longest buffer of `length` bytes on any rank, use the hierarchy? Takes the result of
// in_blocks(). All members get the same answer. The first call for a communicator makes communicators for
// this path in the host MPI.
bool suits_hierarchy(const CollectiveCall& call, uint64_t length, CommunicatorState& state);
// All members pass device memory. Returns an error on all members or on none; raises none.
int run_hierarchical(const CollectiveCall& call, CommunicatorState& state);

}  // namespace fairlead::mpi
