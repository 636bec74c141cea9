// SPDX-License-Identifier: Apache-2.0
//
// The ranks of this job on this node, as all layers above see them. Created in MPI_Init from what the ranks
// exchanged through the host MPI, destroyed in MPI_Finalize. Node ranks count from 0 in world order; -1 means
// "another node, or not of this job". Reading is safe from any thread.

#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "node/fd_socket.h"
#include "node/node_memory.h"
#include "node/segment.h"
#include "node/shared_memory.h"

namespace fairlead::node {

class Node {
 public:
  // The first rank of the node creates the segment; the others have a descriptor of it.
  static SharedMemory create_segment(const Nonce& nonce, int ranks);
  static SharedMemory open_segment(const Nonce& nonce, int ranks, int file);

  // `nonce`: the one of the segment. `world_ranks`: the world rank of each node rank, ascending.
  // `met`: of ranks of several PID namespaces.
  Node(SharedMemory segment, const Nonce& nonce, std::vector<int> world_ranks, int my_rank,
       Introduction* met = nullptr);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(world_ranks_.size()); }
  const Nonce& nonce() const { return nonce_; }
  int world_rank(int node_rank) const { return world_ranks_[node_rank]; }
  // Searches the ranks of the node, so that a rank's memory does not grow with the job.
  int node_rank_of_world(int world_rank) const {
    const auto found = std::lower_bound(world_ranks_.begin(), world_ranks_.end(), world_rank);
    const bool here = found != world_ranks_.end() && *found == world_rank;
    return here ? static_cast<int>(found - world_ranks_.begin()) : -1;
  }

  const FdSocket& files() const { return *files_; }
  NodeMemory& memory() { return memory_; }

  RankBlock& block(int node_rank) const;
  RankBlock& mine() const { return block(rank_); }
  // Tells these ranks that this one has arrived, or that one that it has sent a message.
  void ring(const std::vector<int>& ranks) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    for (int rank : ranks)
      if (rank != rank_) block(rank).doorbell.ring_if_heard(Hears::arrivals);
  }
  void ring_of_message(int rank) const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    block(rank).doorbell.ring_if_heard(Hears::all);
  }
  // Has any rank of the node sent an RTS header, or is any about to?
  bool rts_sent() const { return header().rts_sent.load() != 0; }
  void note_rts_sent() const { header().rts_sent.store(1); }
  // Which device pointers of messages to other nodes the host MPI gets (src/mpi/network/host_capability.h).
  std::atomic<uint32_t>& host_path() const { return header().host_path; }
  // The decision on memory of `device`, as rank `from` numbers its devices.
  PathDecision& decision(int from, int device, int to) const;
  // Stores the decision, and reports once why a pair does not use peer copies.
  void decide(int from, int device, int to, Path path, Reason reason, const char* detail) const;

  // One line: the transport of each pair and why it is not `peer`, by device where they differ.
  std::string describe_paths() const;

 private:
  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(segment_.data()); }

  SharedMemory segment_;
  const Nonce nonce_;
  std::vector<int> world_ranks_;
  int rank_;
  NodeMemory memory_;
  std::unique_ptr<FdSocket> files_;
};

}  // namespace fairlead::node
