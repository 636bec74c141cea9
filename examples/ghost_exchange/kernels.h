// SPDX-License-Identifier: Apache-2.0
//
// The device code, and the only file that is compiled for GPUs. Each function launches a kernel and returns,
// on the default stream unless it takes another one.

#pragma once

#include "../gpu.h"
#include "grid.h"

namespace ghost {

// Cells [jbegin, jend) x [ibegin, iend).
struct Region {
  int jbegin, jend, ibegin, iend;
};

// A warm square in a cold field. Ghost cells are NaN, so that reading one before it is filled shows in the result.
void initialise(double* x, const Grid& grid);

// xnew = (x + left + right + down + up) / 5
void blur(double* xnew, const double* x, const Grid& grid, Region region);

// Ghost cells outside the field take the value of the nearest cell inside.
void boundary(double* x, const Grid& grid);

// The columns to exchange, from the array to buffers and back; only part `part` of `parts` equal ones. Columns of a
// side without neighbour are packed, but not unpacked. One launch handles both sides.
void pack_columns(double* to_left, double* to_right, const double* x, const Grid& grid, int part = 0, int parts = 1,
                  gpuStream_t stream = nullptr);
void unpack_columns(double* x, const double* from_left, const double* from_right, const Grid& grid,
                    gpuStream_t stream = nullptr);

// The same for rows.
void pack_rows(double* to_bottom, double* to_top, const double* x, const Grid& grid);
void unpack_rows(double* x, const double* from_bottom, const double* from_top, const Grid& grid);

}  // namespace ghost
