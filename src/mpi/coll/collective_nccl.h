// SPDX-License-Identifier: Apache-2.0
//
// Translates a collective call into a call of NCCL (src/coll/nccl_collective.h), where NCCL has an
// equivalent: for blocks of equal size, and for reductions whose operation and type NCCL has.

#pragma once

#include <optional>

#include "coll/work.h"
#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

// For contiguous data on one device.
std::optional<coll::NcclCall> nccl_call_for(const CollectiveCall& call, const Regions& regions,
                                            const CommPosition& position, int device);

}  // namespace fairlead::mpi
