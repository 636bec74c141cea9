// SPDX-License-Identifier: Apache-2.0
//
// Which cells this rank owns, and where they lie in its arrays. The ranks form a grid of columns and rows. An array
// holds the rank's cells and a frame of ghost cells around them; rows are contiguous:
//
//     at(j, i)   row j, column i; the rank's own are 0 <= j < jsize, 0 <= i < isize,
//                ghost cells are up to `halo` outside

#pragma once

#include <mpi.h>

#include <cstddef>

namespace ghost {

// In the order of MPI's neighbourhood collectives on a Cartesian grid {rows, columns}.
enum Side { bottom, top, left, right };
constexpr int sides = 4;

struct Grid {
  MPI_Comm comm;  // Cartesian
  int rank, ranks;
  int neighbour[sides];  // MPI_PROC_NULL at the edge of the field

  int rows, columns;  // of the whole field
  int isize, jsize;   // of this rank's part
  int ibegin, jbegin;
  int halo;
  bool corners;

  int width() const { return isize + 2 * halo; }  // from one row of an array to the next
  size_t cells() const { return static_cast<size_t>(width()) * (jsize + 2 * halo); }
  size_t at(int j, int i) const { return static_cast<size_t>(j + halo) * width() + i + halo; }
  bool at_edge(Side side) const { return neighbour[side] == MPI_PROC_NULL; }

  // The cells to exchange: columns of these rows, then rows of these columns. For the corners, columns include the
  // ghost rows outside the field, and rows include all ghost columns.
  int column_begin() const { return corners && at_edge(bottom) ? -halo : 0; }
  int column_end() const { return jsize + (corners && at_edge(top) ? halo : 0); }
  int column_rows() const { return column_end() - column_begin(); }
  int row_begin() const { return corners ? -halo : 0; }
  int row_columns() const { return corners ? width() : isize; }
};

struct Options;

// Collective. The caller has checked all options against `comm`.
Grid make_grid(MPI_Comm comm, const Options& options);
void free_grid(Grid& grid);

// The first cell of process `place` of `places` in a row; the part ends where the next one begins.
int part_begin(int cells, int places, int place);

}  // namespace ghost
