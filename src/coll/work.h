// SPDX-License-Identifier: Apache-2.0
//
// One rank's part of a collective on the GPU, in terms of memory only. Made by src/mpi from the arguments of
// the call; executed by gpu_collective.h.
//
// There are two shapes, and neither needs one GPU to wait for another while it runs. Data movement: each
// member fetches its pieces from the sources of the others. Reduction: each member reduces a slice of the
// elements, reading it from the sources of several members in rank order and writing the result to the
// targets of several; an element is read from everywhere before it is written anywhere, so sources and
// targets may be the same.
//
// What members show to each other has no gaps: a source that has some is packed first, a target is unpacked
// when all are done, and a piece goes to where it belongs by a kernel.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "coll/algorithms.h"
#include "coll/collective_slot.h"
#include "datatype/plan.h"
#include "device/classify.h"
#include "kernels/reduce.h"

namespace fairlead::coll {

// Memory of this rank that others reach.
struct Exposed {
  void* address = nullptr;
  uint64_t bytes = 0;
  // What it holds instead, where that has gaps: others see these bytes one after the other, in a copy.
  std::vector<datatype::View> parts{};
  // Where it has gaps that nobody may write, and yet is shown as it is: what a copy of it copies.
  std::optional<datatype::View> only{};
  device::Found found{};  // if it is fresh
  // Others must not see this memory itself, as this rank's part writes where they still read: a source is
  // copied away first, a target is written elsewhere and copied back when all are done.
  bool by_copy = false;
  // Only this rank's part uses it: it need not be shown.
  bool own = false;
};

// Work that others wait for counts steps: they may use what a step has made as soon as it is done. Steps are
// numbered from 1 in each member; 0 stands for none.
struct Piece {
  int member;                // from whose memory
  bool from_target = false;  // from its target, else from where its source says that our bytes are
  int part = 0;              // of several things that its source holds for us
  uint64_t from = 0;         // the place there
  datatype::View to;         // in the target, where there is one
  uint64_t bytes;
  uint64_t after = 0;      // not before `member` has done this step
  uint64_t completes = 0;  // the step that is done when this and all pieces of lower steps are
};

struct Reduction {
  kernels::ReduceOp op;
  kernels::Element element;
  uint64_t first = 0, count = 0;           // elements of the sources
  int sources_begin = 0, sources_end = 0;  // members that are read, in this order
  int targets_begin = 0, targets_end = 0;  // members that are written
  uint64_t target_first = 0;               // where the result lies in the targets, in elements
};

// The same as one call of NCCL, with its rules for buffers in place (nccl_collective.h).
struct NcclCall {
  Family family;
  int device;
  const void* from = nullptr;
  void* to = nullptr;
  uint64_t count = 0;  // of elements; of one block where there is one for each member
  NcclType type = NcclType::int8;
  NcclOp op = NcclOp::sum;
  int root = 0;
  device::CopyItem afterwards{};  // in the device; no bytes: nothing
};

struct Work {
  int device = -1;  // on which this rank's part runs; -1: it brings no bytes
  Exposed source, target;
  // Where in `source` that lies which is for others, and where in this list those for each member begin.
  uint64_t offsets[max_exports] = {};
  uint8_t first_export[max_members] = {};
  std::optional<Reduction> reduction;
  std::vector<Piece> pieces;
  bool by_kernel = false;        // one of them for all pieces, where no piece waits for another
  std::optional<NcclCall> nccl;  // where that is chosen, and everybody can
};

}  // namespace fairlead::coll
