// SPDX-License-Identifier: Apache-2.0
//
// Chooses the algorithm of a call (src/coll/choice.h), and makes all ranks agree on the rules of that choice.

#pragma once

#include "coll/choice.h"
#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

struct ChosenAlgorithm {
  coll::Algorithm algorithm;  // one of Fairlead's own
  bool nccl_first;            // `algorithm` only if not all members can use NCCL
};
// `nccl`: this rank could use NCCL.
ChosenAlgorithm algorithm_for(const CollectiveCall& call, const Regions& regions,
                              const CommPosition& position, bool nccl);

// Does FAIRLEAD_COLL demand staging? The tuning rules do not count, because they apply to one node.
bool must_stage(Collective function);

// All ranks call it in MPI_Init.
void agree_on_algorithms(int world_rank);

}  // namespace fairlead::mpi
