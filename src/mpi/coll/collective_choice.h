// SPDX-License-Identifier: Apache-2.0
//
// Which algorithm a call takes (src/coll/choice.h), and the agreement of all ranks on how that is decided.

#pragma once

#include "coll/choice.h"
#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

struct ChosenAlgorithm {
  coll::Algorithm algorithm;  // one of Fairlead's own
  bool nccl_first;            // that only where not all members can take NCCL
};
// `nccl`: this rank could.
ChosenAlgorithm algorithm_for(const CollectiveCall& call, const Regions& regions, const CommPosition& position,
                              bool nccl);

// Does FAIRLEAD_COLL say so? The rules are those of one node.
bool must_stage(Collective function);

// In MPI_Init, by all ranks.
void agree_on_algorithms(int world_rank);

}  // namespace fairlead::mpi
