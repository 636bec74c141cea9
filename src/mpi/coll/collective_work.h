// SPDX-License-Identifier: Apache-2.0
//
// A collective call as work for the GPUs of a node (src/coll/work.h), where it can be: data on one device,
// with gaps only where kernels can move those, and for reductions a predefined operation on a type that
// kernels know.

#pragma once

#include "coll/work.h"
#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

// False: it is for the host MPI, unless NCCL can do it, which only a blocking call asks for.
bool work_for(const CollectiveCall& call, const Regions& regions, const CommPosition& position, bool blocking,
              coll::Work* work);

}  // namespace fairlead::mpi
