// SPDX-License-Identifier: Apache-2.0
//
// This rank's place in a communicator: its group, the other group of an inter-communicator, and its
// neighbours in a topology.

#include <algorithm>

#include "collectives/exercise.h"

namespace ranks::coll {

namespace {

// Each edge between two ranks, in a graph, has the same number at both.
std::vector<Team::Neighbor> numbered(const std::vector<int>& ranks) {
  std::vector<Team::Neighbor> neighbors;
  for (auto rank = ranks.begin(); rank != ranks.end(); ++rank)
    neighbors.push_back({*rank, static_cast<int>(std::count(ranks.begin(), rank, *rank))});
  return neighbors;
}

}  // namespace

Team::Team(MPI_Comm comm, int side) : comm(comm), side(side) {
  int is_inter = 0, topology = MPI_UNDEFINED;
  MUST(MPI_Comm_rank(comm, &position));
  MUST(MPI_Comm_size(comm, &local));
  MUST(MPI_Comm_test_inter(comm, &is_inter));
  inter = is_inter != 0;
  far = local;
  if (inter) {
    MUST(MPI_Comm_remote_size(comm, &far));
    return;
  }
  MUST(MPI_Topo_test(comm, &topology));
  has_neighbors = topology != MPI_UNDEFINED;
  if (topology == MPI_CART) {
    int dimensions = 0;
    MUST(MPI_Cartdim_get(comm, &dimensions));
    for (int d = 0; d < dimensions; ++d) {
      int before, after;
      MUST(MPI_Cart_shift(comm, d, 1, &before, &after));
      // By dimension and direction: what goes up comes from below.
      const int down = 2 * d, up = 2 * d + 1;
      destinations.insert(destinations.end(), {{before, down}, {after, up}});
      sources.insert(sources.end(), {{before, up}, {after, down}});
    }
  } else if (topology == MPI_GRAPH) {
    int neighbors = 0;
    MUST(MPI_Graph_neighbors_count(comm, position, &neighbors));
    std::vector<int> ranks(static_cast<size_t>(neighbors));
    MUST(MPI_Graph_neighbors(comm, position, neighbors, ranks.data()));
    sources = destinations = numbered(ranks);
  } else if (topology == MPI_DIST_GRAPH) {
    int in = 0, out = 0, weighted = 0;
    MUST(MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted));
    std::vector<int> from(static_cast<size_t>(in)), to(static_cast<size_t>(out));
    std::vector<int> in_weights(from.size() + 1), out_weights(to.size() + 1);
    MUST(MPI_Dist_graph_neighbors(comm, in, from.data(), in_weights.data(), out, to.data(),
                                  out_weights.data()));
    sources = numbered(from);
    destinations = numbered(to);
  }
}

}  // namespace ranks::coll
