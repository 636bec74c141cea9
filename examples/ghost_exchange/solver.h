// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <mpi.h>

#include <vector>

#include "options.h"

namespace ghost {

// What a phase took in each iteration, in seconds.
struct Times {
  std::vector<double> stencil, boundary, ghost_cell;
  double total = 0;
};

struct Result {
  Times times;                // of this rank
  std::vector<double> field;  // of rank 0, where it was asked for: the whole field
  std::vector<double> array;  // of this rank: its cells and ghost cells
};

// Collective over `comm`, which has as many ranks as the process grid of `options`. `variant` names one that this MPI
// has. Long runs tell rank 0's stderr how far they are.
Result solve(MPI_Comm comm, const Options& options, bool with_field);

}  // namespace ghost
