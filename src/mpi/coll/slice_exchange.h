// SPDX-License-Identifier: Apache-2.0
//
// What the members at one place of their nodes do about a slice: it goes to host memory, through the host MPI
// between the nodes, and back, while the caller goes on. Reductions are done here, in the order of the nodes,
// each part of the slice by one node, so that all nodes get the same bits; by a kernel that reads the
// page-locked memory in which the parts arrive, or by the host MPI where kernels cannot.

#pragma once

#include <deque>
#include <vector>

#include "base/report_timer.h"
#include "coll/slices.h"
#include "device/copy.h"
#include "device/pinned_buffer.h"
#include "kernels/kernel_run.h"
#include "mpi/coll/node_hierarchy.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {

enum class ExchangeKind {
  bcast,      // from the root node to all others
  allgather,  // of all nodes, to all
  reduce,     // of all nodes, to the root node
  allreduce,  // of all nodes, to all
};

struct Slice {
  ExchangeKind kind;
  const void* from;       // in device or host memory; of a broadcast, at the root node only
  std::vector<void*> to;  // where it is wanted; of an all-gather, that of each node
  uint64_t bytes;         // the same at all nodes
  int root_node = 0;
  // Of reductions, of a type that kernels may know and that has no gaps.
  MPI_Datatype datatype = MPI_BYTE;
  MPI_Op op = MPI_OP_NULL;
};

// The host memory of an exchange, for one after the other.
struct ExchangeRoom {
  ExchangeRoom(ExchangeKind kind, uint64_t bytes, uint64_t element, int nodes);
  bool valid() const { return slices.data() && (parts_bytes == 0 || parts.data()); }

  uint64_t parts_bytes;
  device::PinnedBuffer slices;  // as they leave and as they return
  device::PinnedBuffer parts;   // of reductions: this node's part of the slice of each node
};

class SliceExchange : public Operation {
 public:
  SliceExchange(NodeHierarchy& hierarchy, ExchangeRoom& room, const Slice& slice);

  int start() override;
  void advance() override;
  // The next step of others is in the host MPI already, or behind a call that this rank is about to make.
  void quiesce() override {}
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  std::string in_words() const override { return "an exchange between nodes"; }

 private:
  bool step();
  int spread();
  void reduce();
  int collect();
  void land();
  bool landed();
  bool arrived();
  void complain_of_missing();
  bool note(device::Error state);
  void note_host(int result);
  uint64_t part_begin(int node) const { return parts_.begin(static_cast<uint64_t>(node)) * element_; }
  uint64_t part_bytes(int node) const { return parts_.length(static_cast<uint64_t>(node)) * element_; }
  bool is_reduction() const {
    return slice_.kind == ExchangeKind::reduce || slice_.kind == ExchangeKind::allreduce;
  }
  bool is_root() const { return hierarchy_.my_node() == slice_.root_node; }
  unsigned char* own_slice() const;

  NodeHierarchy& hierarchy_;
  ExchangeRoom& room_;
  Slice slice_;
  uint64_t element_;
  coll::Slices parts_;
  uint64_t spreading_turn_ = 0, collecting_turn_ = 0;
  std::vector<int> counts_, offsets_, arriving_counts_, arriving_offsets_;
  device::Copy leaving_;
  std::deque<device::Copy> landing_;
  kernels::KernelRun kernel_;
  enum class Step {
    leaving,
    before_spreading,
    spreading,
    reducing,
    before_collecting,
    collecting,
    landing,
    over
  };
  Step step_ = Step::leaving;
  int error_ = MPI_SUCCESS;
  ReportTimer report_timer_;
};

}  // namespace fairlead::mpi
