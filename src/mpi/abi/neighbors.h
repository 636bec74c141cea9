// SPDX-License-Identifier: Apache-2.0
//
// The neighbours of a rank in the topology of its communicator, in the order of the blocks that it sends to
// and receives from them (MPI 4.1, section 8.6), and which message lands in which block where two ranks are
// neighbours more than once.

#pragma once

#include <vector>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// At the edge of a grid a neighbour is missing: MPI_PROC_NULL, whose block is left alone.
struct Neighbors {
  struct Source {
    int rank;
    int message;  // of those that it sends here, in the order of its own blocks, from 0 on
  };
  std::vector<Source> in;
  std::vector<int> out;

  bool none() const;
};

// Without a topology there are none.
Neighbors neighbors_of(MPI_Comm comm, int rank);

}  // namespace fairlead::mpi
