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

// Collective. Returns whether rank 0 can write the requested files; if not, rank 0 prints a line on stderr.
bool can_write(MPI_Comm comm, const Options& options);

// Collective. Prints the last line, and writes the JSON file if one is requested; the time of a phase is that
// of its slowest rank. Both return false on rank 0 if a file cannot be written, after one line on stderr.
bool report(MPI_Comm comm, const Options& options, const Times& times);
bool write_field(const Options& options, const std::vector<double>& field);

}  // namespace ghost
