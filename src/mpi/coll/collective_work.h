// SPDX-License-Identifier: Apache-2.0
//
// Translates a collective call into the terms of src/coll: work for the GPUs of a node (src/coll/work.h)
// where that is possible: all data lies on one device, layouts have gaps only where kernels can move them,
// and a reduction has a predefined operation on a type that the kernels support.

#pragma once

#include <optional>

#include "coll/algorithms.h"
#include "coll/work.h"
#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

struct Ways {
  bool by_nccl;        // NCCL may execute the call
  bool single_worker;  // one rank may do the work of all
};
// False: the host MPI executes the call, unless NCCL does.
bool work_for(const CollectiveCall& call, const Regions& regions, const CommPosition& position, Ways allowed,
              coll::CollectiveWork* work);

// The same call for NCCL, where NCCL has an equivalent: for blocks of equal size, and for reductions whose
// operation and type NCCL has. For contiguous data on one device.
std::optional<coll::NcclCall> nccl_call_for(const CollectiveCall& call, const CommPosition& position,
                                            int device);

}  // namespace fairlead::mpi
