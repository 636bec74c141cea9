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
  bool by_meeting;     // the ranks may meet in a kernel
  bool single_worker;  // one rank may do the work of all
};
// False: the host MPI executes the call, unless NCCL does.
bool work_for(const CollectiveCall& call, const Regions& regions, const CommPosition& position, Ways allowed,
              coll::CollectiveWork* work);

// The same call for NCCL, where NCCL has an equivalent: for blocks of equal size, and for reductions whose
// operation and type NCCL has. For contiguous data on one device.
std::optional<coll::NcclCall> nccl_call_for(const CollectiveCall& call, const CommPosition& position,
                                            int device);

// The same call as one in which the ranks meet in a kernel, for contiguous data on one device; none if blocks
// are too long or too different, or have no bytes.
std::optional<coll::MeetCall> meet_call_for(const CollectiveCall& call, const CommPosition& position);

// ---- Calls whose blocks all have one length (CollectiveShape::is_even()) --------------------------------

// Bytes of a block.
uint64_t block_bytes(const CollectiveCall& call, const CommPosition& position);
// What a rank gives, and what it gets, if it gives or gets anything.
struct EvenBuffer {
  void* address = nullptr;
  MPI_Count count = 0;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
  uint64_t bytes = 0;
};
EvenBuffer input_of(const CollectiveCall& call, const CommPosition& position, uint64_t unit);
EvenBuffer result_of(const CollectiveCall& call, const CommPosition& position, uint64_t unit);
// Which blocks go from which rank to which.
void set_blocks(const CollectiveShape& shape, int root, int ranks, uint64_t unit, kernels::Meet* meet);

}  // namespace fairlead::mpi
