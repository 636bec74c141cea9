// SPDX-License-Identifier: Apache-2.0
//
// The neighbours of a rank in the topology of its communicator, in the order of the blocks that it sends to
// them and receives from them (MPI 4.1, section 8.6), and, if two ranks are neighbours more than once, which
// message is received into which block.

#pragma once

#include <vector>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// At the edge of a grid a missing neighbour is MPI_PROC_NULL; its block is left alone.
struct Neighbors {
  struct Source {
    int rank;
    int message;  // index among those that it sends here, in the order of its own blocks, from 0
  };
  std::vector<Source> in;
  std::vector<int> out;

  bool none() const;
};

// Empty without a topology.
Neighbors neighbors_of(MPI_Comm comm, int rank);

}  // namespace fairlead::mpi
