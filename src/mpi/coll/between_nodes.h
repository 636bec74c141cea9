// SPDX-License-Identifier: Apache-2.0
//
// Blocking collectives on device memory over a communicator that spans nodes. Within each node they run on
// the GPU, and each member handles a slice of the message. Between the nodes, the members with the same local
// rank transfer their slices through host memory and the host MPI, while the next piece of the message is on
// the GPU.
//
// Either all ranks take this path or none does, and no rank can see what kind of memory the others pass. So
// this path requires that the program asserts a uniform kind (FAIRLEAD_COLL_UNIFORM, or the communicator's
// info key mpi_assert_memory_alloc_kinds, MPI 4.1, section 12.4.3). Everything else that the choice depends
// on is the same on all ranks.

#pragma once

#include "mpi/coll/communicator_state.h"

namespace fairlead::mpi {

// May a call with device memory take this path? All members get the same answer. The first call for a
// communicator makes communicators for this path in the host MPI.
bool runs_between_nodes(const CollectiveCall& call, CommunicatorState& state);
// Returns an error on all members or on none.
int run_between_nodes(const CollectiveCall& call, const Regions& regions, CommunicatorState& state);

}  // namespace fairlead::mpi
