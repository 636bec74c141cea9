// SPDX-License-Identifier: Apache-2.0

#include "kernels.h"

#include <cmath>

namespace ghost {
namespace {

constexpr unsigned threads = 256;

unsigned blocks_for(size_t work) {
  return static_cast<unsigned>((work + threads - 1) / threads);
}

// All cells of the array, including the frame: the first access to memory may decide where it is placed.
__global__ void initialise_cells(double* x, int width, int height, int halo, int jbegin, int ibegin, int rows,
                                 int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= width || j >= height) return;
  bool frame = i < halo || i >= width - halo || j < halo || j >= height - halo;
  int row = jbegin + j - halo, column = ibegin + i - halo;
  bool warm =
      row >= rows / 3 && row < rows - rows / 3 && column >= columns / 3 && column < columns - columns / 3;
  x[static_cast<size_t>(j) * width + i] = frame ? NAN : warm ? 400.0 : 5.0;
}

// x and xnew point to the region's first cell.
__global__ void blur_cells(double* xnew, const double* x, int width, int region_rows, int region_columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= region_columns || j >= region_rows) return;
  const double* cell = x + static_cast<size_t>(j) * width + i;
  xnew[static_cast<size_t>(j) * width + i] =
      (cell[0] + cell[-1] + cell[1] + cell[-width] + cell[width]) / 5.0;
}

// One thread for each cell of the frame: rows above and below, then the rest of the columns on both sides.
// The exchange fills cells that a neighbour owns.
__global__ void fill_frame(double* x, int isize, int jsize, int halo, int bottom_edge, int top_edge,
                           int left_edge, int right_edge) {
  int width = isize + 2 * halo, in_rows = 2 * halo * width, in_columns = 2 * halo * jsize;
  int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= in_rows + in_columns) return;
  int i, j;
  if (n < in_rows) {
    i = n % width - halo;
    j = n / width < halo ? n / width - halo : jsize + n / width - halo;
  } else {
    n -= in_rows;
    i = n % (2 * halo) < halo ? n % (2 * halo) - halo : isize + n % (2 * halo) - halo;
    j = n / (2 * halo);
  }
  bool ours = (i >= 0 || left_edge) && (i < isize || right_edge) && (j >= 0 || bottom_edge) &&
              (j < jsize || top_edge);
  if (!ours) return;
  int inside_i = i < 0 ? 0 : i < isize ? i : isize - 1;
  int inside_j = j < 0 ? 0 : j < jsize ? j : jsize - 1;
  x[static_cast<size_t>(j + halo) * width + i + halo] =
      x[static_cast<size_t>(inside_j + halo) * width + inside_i + halo];
}

// Two boxes of one shape; a box whose `to` is null is not copied.
__global__ void copy_boxes(double* to_first, const double* from_first, double* to_second,
                           const double* from_second, int rows, int columns, int to_stride, int from_stride) {
  int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= rows * columns) return;
  size_t to = static_cast<size_t>(n / columns) * to_stride + n % columns;
  size_t from = static_cast<size_t>(n / columns) * from_stride + n % columns;
  if (to_first) to_first[to] = from_first[from];
  if (to_second) to_second[to] = from_second[from];
}

struct Boxes {
  int rows, columns, to_stride, from_stride;
};

void copy(const Boxes& boxes, double* to_first, const double* from_first, double* to_second,
          const double* from_second, gpuStream_t stream = nullptr) {
  if (!to_first && !to_second) return;
  gpuLaunchOn(stream, copy_boxes, blocks_for(static_cast<size_t>(boxes.rows) * boxes.columns), threads, to_first,
            from_first, to_second, from_second, boxes.rows, boxes.columns, boxes.to_stride,
            boxes.from_stride);
}

double* unless_at_edge(const Grid& grid, Side side, double* cell) {
  return grid.at_edge(side) ? nullptr : cell;
}

dim3 plane_block() {
  return dim3(64, 4);
}
dim3 plane_grid(int columns, int rows) {
  return dim3((columns + 63) / 64, (rows + 3) / 4);
}

}  // namespace

void initialise(double* x, const Grid& grid) {
  int height = grid.jsize + 2 * grid.halo;
  gpuLaunch(initialise_cells, plane_grid(grid.width(), height), plane_block(), x, grid.width(), height,
            grid.halo, grid.jbegin, grid.ibegin, grid.rows, grid.columns);
}

void blur(double* xnew, const double* x, const Grid& grid, Region region) {
  int rows = region.jend - region.jbegin, columns = region.iend - region.ibegin;
  if (rows <= 0 || columns <= 0) return;
  size_t first = grid.at(region.jbegin, region.ibegin);
  gpuLaunch(blur_cells, plane_grid(columns, rows), plane_block(), xnew + first, x + first, grid.width(), rows,
            columns);
}

void boundary(double* x, const Grid& grid) {
  bool any = false;
  for (int neighbour : grid.neighbour) any |= neighbour == MPI_PROC_NULL;
  if (!any) return;
  size_t frame = 2 * static_cast<size_t>(grid.halo) * (grid.width() + grid.jsize);
  gpuLaunch(fill_frame, blocks_for(frame), threads, x, grid.isize, grid.jsize, grid.halo,
            grid.at_edge(bottom), grid.at_edge(top), grid.at_edge(left), grid.at_edge(right));
}

void pack_columns(double* to_left, double* to_right, const double* x, const Grid& grid, int part, int parts,
                  gpuStream_t stream) {
  int rows = grid.column_rows() / parts, halo = grid.halo;
  size_t packed = static_cast<size_t>(part) * rows * halo;
  const double* row = x + grid.at(grid.column_begin() + part * rows, 0);
  copy({rows, halo, halo, grid.width()}, unless_at_edge(grid, left, to_left + packed), row,
       unless_at_edge(grid, right, to_right + packed), row + grid.isize - halo, stream);
}

void unpack_columns(double* x, const double* from_left, const double* from_right, const Grid& grid,
                    gpuStream_t stream) {
  int halo = grid.halo;
  double* row = x + grid.at(grid.column_begin(), 0);
  copy({grid.column_rows(), halo, grid.width(), halo}, unless_at_edge(grid, left, row - halo), from_left,
       unless_at_edge(grid, right, row + grid.isize), from_right, stream);
}

void pack_rows(double* to_bottom, double* to_top, const double* x, const Grid& grid) {
  copy({grid.halo, grid.row_columns(), grid.row_columns(), grid.width()},
       unless_at_edge(grid, bottom, to_bottom), x + grid.at(0, grid.row_begin()),
       unless_at_edge(grid, top, to_top), x + grid.at(grid.jsize - grid.halo, grid.row_begin()));
}

void unpack_rows(double* x, const double* from_bottom, const double* from_top, const Grid& grid) {
  copy({grid.halo, grid.row_columns(), grid.width(), grid.row_columns()},
       unless_at_edge(grid, bottom, x + grid.at(-grid.halo, grid.row_begin())), from_bottom,
       unless_at_edge(grid, top, x + grid.at(grid.jsize, grid.row_begin())), from_top);
}

}  // namespace ghost
