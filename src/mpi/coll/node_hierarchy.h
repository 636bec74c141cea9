// SPDX-License-Identifier: Apache-2.0
//
// A communicator that spans nodes, taken apart: the members of this node, and the members of all nodes that
// have the same place within theirs. A message that all ranks of a node have a hand in is cut into as many
// slices as the smallest node has members; the slice of a place travels among the members at that place.
//
// Made and freed collectively over the communicator. Belongs to the thread that calls its collectives, except
// the turns, which are used with the engine's lock.
//
// Fit for use are only nodes whose members can meet; elsewhere nothing is made.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// Several things on one communicator begin in the order in which they were announced.
class Turns {
 public:
  uint64_t take() { return taken_++; }
  bool has_come(uint64_t turn) const { return passed_ == turn; }
  void pass() { ++passed_; }

 private:
  uint64_t taken_ = 0, passed_ = 0;
};

class NodeHierarchy {
 public:
  // `first_of_node`: the lowest rank in `comm` that lies in this node.
  NodeHierarchy(MPI_Comm comm, int first_of_node);
  ~NodeHierarchy();
  NodeHierarchy(const NodeHierarchy&) = delete;
  NodeHierarchy& operator=(const NodeHierarchy&) = delete;

  // Several nodes, and all that is needed could be made: the same answer on all members.
  bool usable() const { return usable_; }
  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(members_.size()); }
  int my_node() const { return my_node_; }
  int my_local_rank() const { return my_local_rank_; }
  int slices() const { return slices_; }
  bool has_slice() const { return my_local_rank_ < slices_; }
  // Have all nodes equally many members?
  bool regular() const { return regular_; }
  // By their places, the ranks in the communicator.
  const std::vector<int>& members(int node) const { return members_[static_cast<size_t>(node)]; }
  const std::vector<int>& neighbors() const { return members(my_node_); }
  int node_of(int member) const { return node_of_[static_cast<size_t>(member)]; }
  int local_rank_of(int member) const { return local_rank_of_[static_cast<size_t>(member)]; }

  // All members, as in the communicator itself; and those of this node, by place.
  MPI_Comm all() const { return all_; }
  MPI_Comm node() const { return node_; }
  // Twice the members at this place, by node: for collectives that begin in turn. Only for who has a slice.
  struct ExchangeComm {
    MPI_Comm comm = MPI_COMM_NULL;
    Turns turns;
  };
  ExchangeComm spreading, collecting;

 private:
  bool make_communicators(MPI_Comm comm);

  MPI_Comm all_ = MPI_COMM_NULL, node_ = MPI_COMM_NULL;
  std::vector<std::vector<int>> members_;
  std::vector<int> node_of_, local_rank_of_;
  int my_node_ = 0, my_local_rank_ = 0, slices_ = 0;
  bool regular_ = true, usable_ = false;
};

}  // namespace fairlead::mpi
