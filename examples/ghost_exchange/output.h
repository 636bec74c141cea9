// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string>
#include <vector>

#include "grid.h"
#include "options.h"
#include "solver.h"

namespace ghost {

// Collective. The whole field, on rank 0.
std::vector<double> gather_field(const std::vector<double>& array, const Grid& grid, const Options& options);

// Collective. The arrays of all ranks, with their ghost cells, the top row first.
void print_arrays(const char* when, const std::vector<double>& array, const Grid& grid);

// Collective. Whether rank 0 can write the files that are asked for; it says so on stderr where it cannot.
bool can_write(MPI_Comm comm, const Options& options);

// Collective. The last line, and the JSON file where one is asked for; of each phase the slowest rank counts.
// Both return false on rank 0 where a file cannot be written, after one line on stderr.
bool report(MPI_Comm comm, const Options& options, const Times& times);
bool write_field(const Options& options, const std::vector<double>& field);

}  // namespace ghost
