// SPDX-License-Identifier: Apache-2.0
//
// Blocking collectives on device memory over a communicator that spans nodes: in each node on the GPU, each
// member of it with a slice of the message; between the nodes through host memory and the host MPI, the
// members at each place of their nodes among themselves, while the next piece of the message is on the GPU.
//
// All ranks must take this way or none, and no rank can see what memory the others bring: so only where the
// program asserts that it is of one kind (FAIRLEAD_COLL_UNIFORM, or the info key
// mpi_assert_memory_alloc_kinds of the communicator, MPI 4.1, section 12.4.3). Everything else that the
// choice depends on is the same on all ranks.

#pragma once

#include <string>

#include "mpi/coll/communicator_state.h"

namespace fairlead::mpi {

// May a call with device memory take this way? All members get the same answer; the first time on a
// communicator they ask the host MPI for communicators of their own.
bool runs_between_nodes(const CollectiveCall& call, CommunicatorState& point);
// The call's result, the same on all members as to whether it is an error; errors have not been raised yet.
int run_between_nodes(const CollectiveCall& call, CommunicatorState& point);

// After the host MPI gave this info to a communicator: collective over it. MPI_COMM_NULL is allowed.
void note_memory_kinds(MPI_Comm comm, MPI_Info info);
// Of a list of kinds: are they all device memory, such as "cuda:device"?
bool names_device_memory_only(const std::string& kinds);
// What holds for a communicator of which no info says anything.
bool kinds_are_uniform();
// In MPI_Init, by all ranks: the options that all must have alike are those of the first.
void agree_on_limits();

}  // namespace fairlead::mpi
