// SPDX-License-Identifier: Apache-2.0
//
// What the members at one place of their nodes do about a slice: it goes to host memory, through the host MPI
// between the nodes, and back, while the caller goes on. Reductions are done here, in the order of the nodes,
// each part of the slice by one node, so that all nodes get the same bits; by a kernel that reads the
// page-locked memory in which the parts arrive, or by the host MPI where kernels cannot.

#pragma once

#include <vector>

#include "coll/kernel_run.h"
#include "device/copy.h"
#include "device/pinned_buffer.h"
#include "mpi/levels.h"
#include "mpi/operation.h"

namespace fairlead::mpi {

enum class ExchangeKind {
  bcast,      // from the root node to all others
  reduce,     // of all nodes, to the root node
  allreduce,  // of all nodes, to all
};

struct Slice {
  ExchangeKind kind;
  const void* from;  // in device or host memory; of MPI_Bcast, at the root node only
  void* to;          // where it is wanted
  uint64_t bytes;    // the same at all nodes
  int root_node = 0;
  // Of reductions, of a type that kernels may know.
  MPI_Datatype datatype = MPI_BYTE;
  MPI_Op op = MPI_OP_NULL;
};

class SliceExchange : public Operation {
 public:
  SliceExchange(Levels& levels, const Slice& slice);

  int start() override;
  void advance() override;
  // The next step of others is in the host MPI already, or behind a call that this rank is about to make.
  void settle() override {}
  int finish(MPI_Status* status) override;
  void describe(MPI_Status* status) override;

 private:
  bool step();
  int spread();
  void reduce();
  int collect();
  bool arrived();
  bool note(device::Error state);
  void note_host(int result);
  uint64_t element_bytes() const;
  uint64_t part_begin(int node) const;
  uint64_t part_bytes(int node) const { return part_begin(node + 1) - part_begin(node); }
  bool is_reduction() const { return slice_.kind != ExchangeKind::bcast; }
  bool is_root() const { return levels_.my_node() == slice_.root_node; }
  bool wants_result() const {
    return slice_.kind == ExchangeKind::allreduce || is_root() == (slice_.kind == ExchangeKind::reduce);
  }

  Levels& levels_;
  Slice slice_;
  uint64_t spreading_turn_ = 0, collecting_turn_ = 0;
  // The slice as it leaves and as it returns; and this node's part of it, of all nodes.
  device::PinnedBuffer slice_copy_, parts_;
  std::vector<int> counts_, offsets_, arriving_counts_, arriving_offsets_;
  device::Copy copy_;
  coll::KernelRun kernel_;
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
};

}  // namespace fairlead::mpi
