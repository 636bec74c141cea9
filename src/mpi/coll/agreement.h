// SPDX-License-Identifier: Apache-2.0
//
// What the ranks must know alike about collectives, and agree on by collectives of the host MPI: in MPI_Init
// the rules of algorithms (src/coll/choice.h), the use of NCCL and the limits of collectives between nodes;
// for each communicator the kinds of memory that its collectives get.

#pragma once

#include <cstdint>

#include "base/memory/memory_kinds.h"
#include "coll/memory_agreement.h"
#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// All ranks call it in MPI_Init.
void agree_on_collectives(int world_rank);

// For collectives between nodes (between_nodes.h), and between groups of a node: rank 0's options, on all
// ranks.
struct NodeLimits {
  int64_t uniform;  // agree at every call on communicators whose info does not contain the key
  int64_t from, segment;
  int64_t members;   // the maximum of a communicator with a collective slot
  int64_t compares;  // FAIRLEAD_CHECK=collectives
};
const NodeLimits& node_limits();

// Notes what this info asserts of a communicator (mpi/info/memory_kinds.h). Call it after the host MPI has
// got the info. Collective over the communicator; MPI_COMM_NULL is allowed.
void note_memory_kinds(MPI_Comm comm, MPI_Info info);
// What a list of memory kinds asserts, such as "cuda:device" or "system" (MPI 4.1, section 12.4.3). Kinds
// that may be either, such as "cuda", assert nothing.
coll::MemoryAgreement::Rule rule_for(const KindList& kinds);

}  // namespace fairlead::mpi
