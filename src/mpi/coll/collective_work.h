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

// A blocking call as one in which the ranks meet in a kernel, if that is the algorithm for it: for contiguous
// data on one device, in blocks of one length.
std::optional<coll::MeetCall> meet_call_for(const CollectiveCall& call, const Regions& regions,
                                            const CommPosition& position);

// Where the data of a call is, if it is all on one device.
struct Place {
  int device;                      // -1: there is none
  bool read_dense, written_dense;  // it has no gaps
  bool written_is_ordinary;        // as device::Allocation says, if there is any
};
std::optional<Place> place_of(const Regions& regions);

// The size of the largest buffer that any rank passes. In functions where ranks pass amounts that other ranks
// do not know, each rank sees only its own; of the algorithms of those functions, only `staged` affects the
// other ranks.
uint64_t largest_buffer(const CollectiveCall& call, const Regions& regions, const CommPosition& position);

// ---- Calls whose blocks all have one length (CollectiveShape::is_even()) --------------------------------

// What a rank gives, and what it gets, if it gives or gets anything, in blocks of `unit` bytes.
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
