// SPDX-License-Identifier: Apache-2.0
//
// The exchange of ghost cells: the interface of all variants, and shared code. Each variant is a file in variants/.
//
//   columns   left and right ghost cells lie `width` apart: they are packed into a buffer of their own
//   rows      bottom and top ghost cells are contiguous: they are sent from, and received into, the array itself
//
// Left and right come first, then bottom and top. With corners, rows are sent with their ghost cells, in one message,
// after the columns have arrived, and so bring the corners. Without corners, only the rank's own cells are sent, one
// message for each row of the halo, and all messages are in flight at once.

#pragma once

#include <mpi.h>

#include <memory>

#include "../gpu.h"
#include "grid.h"
#include "kernels.h"

namespace ghost {

class Exchange {
 public:
  virtual ~Exchange() = default;
  // Fills the ghost cells of `x` that neighbours own. The GPU is idle before, except for work that
  // is launched between the two; what they leave to the GPU is done when the caller has synchronised it.
  virtual void start(double* x) = 0;
  virtual void finish(double* x) = 0;
};

enum class Memory { device, managed };

// An array that lives as long as its owner.
class Array {
 public:
  Array(size_t cells, Memory memory) {
    if (memory == Memory::managed)
      gpuCheck(gpuMallocManaged(&address_, cells * sizeof(double)));
    else
      gpuCheck(gpuMalloc(&address_, cells * sizeof(double)));
  }
  ~Array() { gpuCheck(gpuFree(address_)); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  double* data() const { return address_; }

 private:
  double* address_ = nullptr;
};

// The tag of a message is the side of the sender that it leaves.
constexpr Side opposite(Side side) {
  return side == left ? right : side == right ? left : side == bottom ? top : bottom;
}

// Buffers for the left and right columns, of `count` numbers each.
class Columns {
 public:
  Columns(const Grid& grid, Memory memory)
      : count(grid.column_rows() * grid.halo),
        grid_(grid),
        send_{Array(count, memory), Array(count, memory)},
        receive_{Array(count, memory), Array(count, memory)} {}

  double* send(Side side) const { return send_[side == right].data(); }
  double* receive(Side side) const { return receive_[side == right].data(); }

  // These return when the GPU has finished, because MPI does not wait for streams.
  void pack(const double* x, int part = 0, int parts = 1) const {
    pack_columns(send(left), send(right), x, grid_, part, parts);
    gpuCheck(gpuDeviceSynchronize());
  }
  void unpack(double* x) const {
    unpack_columns(x, receive(left), receive(right), grid_);
    gpuCheck(gpuDeviceSynchronize());
  }

  // These return at once, for MPI operations that are enqueued on the same stream.
  void pack_on(gpuStream_t stream, const double* x) const {
    pack_columns(send(left), send(right), x, grid_, 0, 1, stream);
  }
  void unpack_on(gpuStream_t stream, double* x) const {
    unpack_columns(x, receive(left), receive(right), grid_, stream);
  }

  const int count;

 private:
  const Grid& grid_;
  const Array send_[2], receive_[2];
};

// The places of the bottom and top rows in an array: `pieces` messages for each side, of `count` numbers each.
class Rows {
 public:
  explicit Rows(const Grid& grid)
      : pieces(grid.corners ? 1 : grid.halo), count(grid.corners ? grid.halo * grid.width() : grid.isize), grid_(grid) {}

  size_t send(Side side, int piece) const {
    return grid_.at((side == bottom ? 0 : grid_.jsize - grid_.halo) + piece, grid_.row_begin());
  }
  size_t receive(Side side, int piece) const {
    return grid_.at((side == bottom ? -grid_.halo : grid_.jsize) + piece, grid_.row_begin());
  }

  const int pieces, count;

 private:
  const Grid& grid_;
};

}  // namespace ghost
