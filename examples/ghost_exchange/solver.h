// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <mpi.h>

#include <vector>

#include "options.h"

namespace ghost {

// The seconds of each phase in each iteration.
struct Times {
  std::vector<double> stencil, boundary, ghost_cell;
  double total = 0;
};

struct Result {
  Times times;                // of this rank
  std::vector<double> field;  // on rank 0, if requested: the whole field
  std::vector<double> array;  // of this rank: its cells and ghost cells
};

// Collective over `comm`, which has as many ranks as the process grid of `options`. This MPI supports `variant`.
// In long runs, rank 0 prints the progress on stderr.
Result solve(MPI_Comm comm, const Options& options, bool with_field);

}  // namespace ghost
