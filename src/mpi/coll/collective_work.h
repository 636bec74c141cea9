// SPDX-License-Identifier: Apache-2.0
//
// Translates a collective call into work for the GPUs of a node (src/coll/work.h), where that is possible:
// all data lies on one device, layouts have gaps only where kernels can move them, and a reduction has a
// predefined operation on a type that the kernels support.

#pragma once

#include "coll/work.h"
#include "mpi/coll/collective_call.h"

namespace fairlead::mpi {

// False: the host MPI executes the call, unless NCCL can. Only blocking calls use NCCL.
bool work_for(const CollectiveCall& call, const Regions& regions, const CommPosition& position, bool blocking,
              coll::Work* work);

}  // namespace fairlead::mpi
