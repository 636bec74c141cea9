// SPDX-License-Identifier: Apache-2.0
//
// A communicator that spans nodes, divided two ways: the members of this node, and the members of all nodes
// that have the same local rank. If the communicator has more members in a node than can share a collective
// slot, they are divided into groups, each of which counts as a node here. If all ranks of a node take part
// in transferring a message, the message is cut into as many slices as the smallest node has members; the
// members with a given local rank exchange the slice of that rank.
//
// Made and freed collectively over the communicator. It belongs to the thread that calls the communicator's
// collectives, except the turns, which the engine's lock guards.
//
// It is usable only if there are several nodes or groups and no member has very many hierarchies; otherwise
// it makes no communicators.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// Operations on one communicator begin in the order in which they have taken their turns.
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
  // `first_of_node`: the lowest rank in `comm` that belongs to this node.
  NodeHierarchy(MPI_Comm comm, int first_of_node);
  ~NodeHierarchy();
  NodeHierarchy(const NodeHierarchy&) = delete;
  NodeHierarchy& operator=(const NodeHierarchy&) = delete;

  // True if there are several nodes and all communicators could be made. The same on all members.
  bool usable() const { return usable_; }
  int ranks() const { return static_cast<int>(node_of_.size()); }
  int nodes() const { return static_cast<int>(members_.size()); }
  int my_node() const { return my_node_; }
  int my_local_rank() const { return my_local_rank_; }
  int slices() const { return slices_; }
  bool has_slice() const { return my_local_rank_ < slices_; }
  // Do all nodes have the same number of members?
  bool regular() const { return regular_; }
  // The ranks in the communicator, by local rank.
  const std::vector<int>& members(int node) const { return members_[static_cast<size_t>(node)]; }
  const std::vector<int>& neighbors() const { return members(my_node_); }
  int node_of(int member) const { return node_of_[static_cast<size_t>(member)]; }
  int local_rank_of(int member) const { return local_rank_of_[static_cast<size_t>(member)]; }

  // all(): all members, in the order of the communicator. node(): the members of this node, by local rank.
  MPI_Comm all() const { return all_; }
  MPI_Comm node() const { return node_; }
  // Two communicators of the members with this local rank, ordered by node, for collectives that begin in
  // turn. Only ranks that have a slice have them.
  struct ExchangeComm {
    MPI_Comm comm = MPI_COMM_NULL;
    Turns turns;
  };
  ExchangeComm spreading, collecting;

 private:
  void add_groups(const std::vector<int>& node);
  bool make_communicators(MPI_Comm comm);

  MPI_Comm all_ = MPI_COMM_NULL, node_ = MPI_COMM_NULL;
  std::vector<std::vector<int>> members_;
  std::vector<int> node_of_, local_rank_of_;
  int my_node_ = 0, my_local_rank_ = 0, slices_ = 0;
  bool regular_ = true, usable_ = false;
};

}  // namespace fairlead::mpi
