// SPDX-License-Identifier: Apache-2.0
//
// The exchange of a slice between the members of all nodes that have the same local rank. The slice is copied
// to host memory, transferred between the nodes by the host MPI, and copied back, while the caller continues.
// Reductions happen here, in the order of the nodes. Each part of the slice is reduced by one node, so that
// all nodes get the same bits. A kernel reduces the parts and reads them from the page-locked memory in which
// they arrive; the host MPI reduces them where kernels cannot.

#pragma once

#include <deque>
#include <vector>

#include "base/report_timer.h"
#include "coll/slices.h"
#include "device/copies/copy.h"
#include "device/pinned_buffer.h"
#include "kernels/kernel_run.h"
#include "mpi/coll/node_hierarchy.h"
#include "mpi/core/operation.h"

namespace fairlead::mpi {

enum class ExchangeKind {
  bcast,           // from the root node to all other nodes
  allgather,       // from all nodes to all nodes
  reduce,          // from all nodes to the root node
  allreduce,       // from all nodes to all nodes
  reduce_scatter,  // from all nodes, an equal part to each
};

struct Slice {
  ExchangeKind kind;
  const void* from;       // device or host memory; in a broadcast, only at the root node
  std::vector<void*> to;  // the destination; in an all-gather, one for each node
  uint64_t bytes;         // the same on all nodes; in a reduce-scatter, of all parts
  int root_node = 0;
  // Only for reductions; elements have their padding, and kernels may support the type.
  MPI_Datatype datatype = MPI_BYTE;
  MPI_Op op = MPI_OP_NULL;
};

// The host memory of an exchange. Exchanges use it one after the other.
struct ExchangeMemory {
  ExchangeMemory(ExchangeKind kind, uint64_t bytes, uint64_t element, int nodes);
  bool valid() const { return slices.data() && (parts_bytes == 0 || parts.data()); }

  uint64_t parts_bytes;
  device::PinnedBuffer slices;  // outgoing, and then returning
  device::PinnedBuffer parts;   // in reductions: this node's part of each node's slice
};

constexpr bool is_reduction(ExchangeKind kind) {
  return kind != ExchangeKind::bcast && kind != ExchangeKind::allgather;
}

class SliceExchange : public Operation {
 public:
  SliceExchange(NodeHierarchy& hierarchy, ExchangeMemory& room, const Slice& slice);

  int start() override;
  void advance() override;
  // Nothing to do: the next step of the other nodes is in the host MPI already, or follows a call that this
  // rank is about to make.
  void quiesce() override {}
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;
  std::string description() const override { return "an exchange between nodes"; }

 private:
  bool step();
  int spread();
  void reduce();
  int collect();
  void copy_back();
  bool copied_back();
  bool arrived();
  void complain_of_missing();
  bool note(device::Error state);
  void note_host(int result);
  uint64_t part_begin(int node) const { return parts_.begin(static_cast<uint64_t>(node)) * element_; }
  uint64_t part_bytes(int node) const { return parts_.length(static_cast<uint64_t>(node)) * element_; }
  bool scatters() const { return slice_.kind == ExchangeKind::reduce_scatter; }
  bool reduces() const { return is_reduction(slice_.kind); }
  bool is_root() const { return hierarchy_.my_node() == slice_.root_node; }
  unsigned char* own_slice() const;

  NodeHierarchy& hierarchy_;
  ExchangeMemory& room_;
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
