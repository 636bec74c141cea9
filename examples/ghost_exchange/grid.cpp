// SPDX-License-Identifier: Apache-2.0

#include "grid.h"

#include "options.h"

namespace ghost {

int part_begin(int cells, int places, int place) {
  return static_cast<int>(static_cast<long>(cells) * place / places);
}

Grid make_grid(MPI_Comm comm, const Options& options) {
  Grid grid{};
  int shape[] = {options.process_rows, options.process_columns}, periodic[] = {0, 0}, place[2];
  MPI_Cart_create(comm, 2, shape, periodic, 0, &grid.comm);
  MPI_Comm_rank(grid.comm, &grid.rank);
  MPI_Comm_size(grid.comm, &grid.ranks);
  MPI_Cart_coords(grid.comm, grid.rank, 2, place);
  MPI_Cart_shift(grid.comm, 0, 1, &grid.neighbour[bottom], &grid.neighbour[top]);
  MPI_Cart_shift(grid.comm, 1, 1, &grid.neighbour[left], &grid.neighbour[right]);

  grid.rows = options.rows;
  grid.columns = options.columns;
  grid.jbegin = part_begin(grid.rows, shape[0], place[0]);
  grid.jsize = part_begin(grid.rows, shape[0], place[0] + 1) - grid.jbegin;
  grid.ibegin = part_begin(grid.columns, shape[1], place[1]);
  grid.isize = part_begin(grid.columns, shape[1], place[1] + 1) - grid.ibegin;
  grid.halo = options.halo;
  grid.corners = options.corners;
  return grid;
}

void free_grid(Grid& grid) {
  MPI_Comm_free(&grid.comm);
}

}  // namespace ghost
