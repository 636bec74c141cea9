// SPDX-License-Identifier: Apache-2.0
//
// One collective for all neighbours of the Cartesian grid. It takes one send buffer and one receive
// buffer, so rows are packed, too. With corners it is called twice: columns first, then rows.

#include "../exchange.h"
#include "../variants.h"

namespace ghost {
namespace {

class NeighbourExchange : public Exchange {
 public:
  explicit NeighbourExchange(const Grid& grid)
      : grid_(grid),
        row_count_(grid.row_columns() * grid.halo),
        column_count_(grid.column_rows() * grid.halo),
        send_(2 * (row_count_ + column_count_), Memory::device),
        receive_(2 * (row_count_ + column_count_), Memory::device) {}

  void start(double* x) override {
    pack_columns(send(left), send(right), x, grid_);
    if (!grid_.corners) return;
    exchange(0, column_count_);
    unpack_columns(x, receive(left), receive(right), grid_);
  }

  void finish(double* x) override {
    pack_rows(send(bottom), send(top), x, grid_);
    exchange(row_count_, grid_.corners ? 0 : column_count_);
    if (!grid_.corners) unpack_columns(x, receive(left), receive(right), grid_);
    unpack_rows(x, receive(bottom), receive(top), grid_);
    gpuCheck(gpuDeviceSynchronize());
  }

 private:
  // In the order of the neighbours.
  int place(Side side) const {
    return side < left ? side * row_count_ : 2 * row_count_ + (side - left) * column_count_;
  }
  double* send(Side side) const { return send_.data() + place(side); }
  double* receive(Side side) const { return receive_.data() + place(side); }

  void exchange(int rows, int columns) {
    gpuCheck(gpuDeviceSynchronize());  // the packed columns are complete
    const int counts[] = {rows, rows, columns, columns};
    const int places[] = {place(bottom), place(top), place(left), place(right)};
    MPI_Neighbor_alltoallv(send_.data(), counts, places, MPI_DOUBLE, receive_.data(), counts, places, MPI_DOUBLE,
                           grid_.comm);
  }

  const Grid& grid_;
  const int row_count_, column_count_;
  Array send_, receive_;
};

}  // namespace

std::unique_ptr<Exchange> neighbour_exchange(const Grid& grid) {
  return std::make_unique<NeighbourExchange>(grid);
}

}  // namespace ghost
