// SPDX-License-Identifier: Apache-2.0
//
// What the ranks must know alike about collectives, and agree on by collectives of the host MPI: in MPI_Init
// the rules of algorithms (src/coll/choice.h), the use of NCCL and the limits of collectives between nodes;
// for each communicator the kinds of memory that its collectives get.

#pragma once

#include <cstdint>
#include <string>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// All ranks call it in MPI_Init.
void agree_on_collectives(int world_rank);

// For collectives between nodes (between_nodes.h): rank 0's options, on all ranks.
struct NodeLimits {
  int64_t uniform;  // the assertion for communicators whose info does not contain the key
  int64_t from, segment;
};
const NodeLimits& node_limits();

// Call it after the host MPI has given this info to a communicator. Collective over the communicator;
// MPI_COMM_NULL is allowed.
void note_memory_kinds(MPI_Comm comm, MPI_Info info);
// Are all kinds of this list device memory, such as "cuda:device"?
bool names_device_memory_only(const std::string& kinds);

}  // namespace fairlead::mpi
