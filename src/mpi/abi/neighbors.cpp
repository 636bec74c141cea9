// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/neighbors.h"

#include <algorithm>

namespace fairlead::mpi {
namespace {

int times(const std::vector<int>& ranks, size_t end, int rank) {
  return static_cast<int>(std::count(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(end), rank));
}

// The neighbours below and above in each dimension. What a rank sends downwards, its neighbour receives from
// above. This holds also if both neighbours are the same rank, in a periodic dimension of one or two ranks.
Neighbors of_grid(MPI_Comm comm) {
  int dimensions = 0;
  PMPI_Cartdim_get(comm, &dimensions);
  std::vector<int> senders;  // senders[k]: the rank that sends its block k to this rank
  Neighbors neighbors;
  for (int dimension = 0; dimension < dimensions; ++dimension) {
    int below = MPI_PROC_NULL, above = MPI_PROC_NULL;
    PMPI_Cart_shift(comm, dimension, 1, &below, &above);
    neighbors.out.insert(neighbors.out.end(), {below, above});
    senders.insert(senders.end(), {above, below});
  }
  for (size_t block = 0; block < neighbors.out.size(); ++block) {
    int rank = neighbors.out[block];
    neighbors.in.push_back({rank, times(senders, block ^ 1, rank)});
  }
  return neighbors;
}

// If several edges lead from one rank to another, the first at one end is the first at the other.
Neighbors of_graph(const std::vector<int>& in, std::vector<int> out) {
  Neighbors neighbors;
  for (size_t block = 0; block < in.size(); ++block)
    neighbors.in.push_back({in[block], times(in, block, in[block])});
  neighbors.out = std::move(out);
  return neighbors;
}

}  // namespace

bool Neighbors::none() const {
  auto missing = [](const Source& source) { return source.rank == MPI_PROC_NULL; };
  return std::all_of(in.begin(), in.end(), missing) &&
         std::count(out.begin(), out.end(), MPI_PROC_NULL) == static_cast<std::ptrdiff_t>(out.size());
}

Neighbors neighbors_of(MPI_Comm comm, int rank) {
  int topology = MPI_UNDEFINED;
  PMPI_Topo_test(comm, &topology);
  if (topology == MPI_CART) return of_grid(comm);
  if (topology == MPI_GRAPH) {
    int count = 0;
    PMPI_Graph_neighbors_count(comm, rank, &count);
    std::vector<int> both(static_cast<size_t>(count));
    PMPI_Graph_neighbors(comm, rank, count, both.data());
    return of_graph(both, both);
  }
  if (topology == MPI_DIST_GRAPH) {
    int in = 0, out = 0, weighted = 0;
    PMPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    std::vector<int> sources(static_cast<size_t>(in)), destinations(static_cast<size_t>(out));
    std::vector<int> weights_in(sources.size()), weights_out(destinations.size());
    PMPI_Dist_graph_neighbors(comm, in, sources.data(), weights_in.data(), out, destinations.data(),
                              weights_out.data());
    return of_graph(sources, destinations);
  }
  return {};
}

}  // namespace fairlead::mpi
