// SPDX-License-Identifier: Apache-2.0
//
// One rank's part of a collective on the GPU, in terms of memory only. src/mpi makes it from the arguments of
// the call; GpuCollective executes it (gpu_collective.h).
//
// There are two kinds of work, and in neither does a GPU wait for another while it runs. Data movement: each
// member fetches its pieces from the sources of the others. Reduction: each member reduces a slice of the
// elements. It reads the slice from the sources of several members in rank order and writes the result to the
// targets of several. It reads an element from all sources before it writes the element to any target, so
// that sources and targets may be the same memory. With ReduceOp::replace and one source, a reduction
// distributes that source. Some work has both forms: it runs as a reduction if all members can export their
// targets, otherwise as data movement.
//
// The memory that members export has no gaps: a source with gaps is packed first, and a target with gaps is
// unpacked when all members are done. A kernel writes each piece to its place.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coll/algorithms.h"
#include "coll/collective_slot.h"
#include "device/classify.h"
#include "kernels/meet.h"
#include "kernels/reduce.h"
#include "packing/plan.h"

namespace fairlead::coll {

// Memory of this rank that other members access.
struct Exposed {
  void* address = nullptr;
  uint64_t bytes = 0;
  // If the memory has gaps, the parts that it holds: other members see their bytes one after the other, in a
  // copy.
  std::vector<packing::View> parts{};
  // Set if the memory has gaps that must not be written, but is exported as it is: the bytes that a copy of
  // it transfers.
  std::optional<packing::View> only{};
  device::Found found{};  // from a recent classification
  // Other members must not access this memory itself, because this rank writes where they still read. A
  // source is copied first; a target is written elsewhere and copied back when all members are done.
  bool by_copy = false;
  // Only this rank uses the memory, so it need not be exported.
  bool own = false;
};

struct Piece {
  int member;         // whose source is read
  int part = 0;       // number of the region, of several that its source has for us
  uint64_t from = 0;  // offset there
  packing::View to;
  uint64_t bytes;
};

struct Reduction {
  kernels::ReduceOp op;
  kernels::Element element;
  uint64_t first = 0, count = 0;           // elements of the sources
  int sources_begin = 0, sources_end = 0;  // members that are read, in this order
  int targets_begin = 0, targets_end = 0;  // members that are written
  int spared = -1;                         // one of them that is not written
  uint64_t target_first = 0;               // offset of the result in the targets, in elements
};

// The same work as one call of NCCL, with NCCL's rules for in-place buffers (nccl_collective.h).
struct NcclCall {
  Family family;
  int device;
  const void* from = nullptr;
  void* to = nullptr;
  uint64_t count = 0;  // in elements; for one block if there is a block for each member
  NcclType type = NcclType::int8;
  NcclOp op = NcclOp::sum;
  int root = 0;
  device::CopyItem afterwards{};  // a copy inside the device after the call; no bytes: none
};

// The same work as a call in which the ranks meet (meeting.h).
struct MeetCall {
  kernels::Meet meet;  // without what MeetingPlace adds: the scratches, the flag and the number
  int device = -1;
  uint64_t signature = 0;  // of the arguments that must be the same on all members
  bool result_in_own_memory = false;
};

// The work of all members, of a call whose buffers have no gaps: one member may do it (gpu_collective.h).
struct WorkOfAll {
  uint64_t signature = 0;  // of the arguments: the same on all members that may take part
  Exposed result;          // unless the target is exported anyway
  // Either a reduction, or bytes that move from the sources of some members to the results of others.
  std::optional<Reduction> reduction;
  struct Transfer {
    int from;  // member
    uint64_t from_at;
    int to;
    uint64_t to_at, bytes;
  };
  std::vector<Transfer> transfers;
};

struct CollectiveWork {
  Algorithm algorithm{};        // the chosen one, unless NCCL comes first
  uint64_t largest_buffer = 0;  // of any rank, by which it was chosen, in bytes
  int device = -1;              // runs this rank's part; -1: the rank passes no bytes
  Exposed source, target;
  // Offsets in `source` of the regions for other members, and the index in this list of the first one for
  // each member.
  uint64_t offsets[max_exports] = {};
  uint8_t first_export[max_members] = {};
  std::optional<Reduction> reduction;
  std::vector<Piece> pieces;
  bool by_kernel = false;  // one kernel fetches all pieces, if it can
  // The receive buffer certainly is memory of `device`, as far as NVIDIA's driver tells: memory that another
  // process shares with the program may lie elsewhere.
  bool receives_in_own_memory = false;
  std::optional<WorkOfAll> of_all;
  std::optional<NcclCall> nccl;  // if NCCL is chosen and all members can use it
};

}  // namespace fairlead::coll
