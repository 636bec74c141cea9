// SPDX-License-Identifier: Apache-2.0
//
// A collective call as a call of NCCL (src/coll/nccl_collective.h), where NCCL has it: blocks of equal size,
// and for reductions one of its operations on one of its types.

#pragma once

#include <optional>

#include "coll/work.h"
#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

// Of contiguous data on one device.
std::optional<coll::NcclCall> nccl_call_for(const CollectiveCall& call, const Regions& regions,
                                            const CommPosition& position, int device);

}  // namespace fairlead::mpi
