// SPDX-License-Identifier: Apache-2.0
//
// A datatype describes the columns, and MPI packs them: the program needs no buffers and no kernels for that. It is the
// shortest variant; its speed depends on how the MPI packs device memory.

#include "../exchange.h"
#include "../variants.h"

namespace ghost {
namespace {

class DatatypeExchange : public Exchange {
 public:
  explicit DatatypeExchange(const Grid& grid) : grid_(grid) {
    MPI_Type_vector(grid.column_rows(), grid.halo, grid.width(), MPI_DOUBLE, &columns_);
    MPI_Type_vector(grid.halo, grid.row_columns(), grid.width(), MPI_DOUBLE, &rows_);
    MPI_Type_commit(&columns_);
    MPI_Type_commit(&rows_);
  }
  ~DatatypeExchange() override {
    MPI_Type_free(&columns_);
    MPI_Type_free(&rows_);
  }

  void start(double* x) override {
    double* row = x + grid_.at(grid_.column_begin(), 0);
    int column = grid_.row_begin();
    post(0, row - grid_.halo, row, columns_, left);
    post(1, row + grid_.isize, row + grid_.isize - grid_.halo, columns_, right);
    if (grid_.corners) MPI_Waitall(4, requests_, MPI_STATUSES_IGNORE);
    post(2, x + grid_.at(-grid_.halo, column), x + grid_.at(0, column), rows_, bottom);
    post(3, x + grid_.at(grid_.jsize, column), x + grid_.at(grid_.jsize - grid_.halo, column), rows_, top);
  }

  void finish(double*) override {
    // With corners, those of columns are null already.
    MPI_Waitall(2 * sides, requests_, MPI_STATUSES_IGNORE);
  }

 private:
  void post(int place, double* receive, const double* send, MPI_Datatype type, Side side) {
    int neighbour = grid_.neighbour[side];
    MPI_Irecv(receive, 1, type, neighbour, opposite(side), grid_.comm, &requests_[2 * place]);
    MPI_Isend(send, 1, type, neighbour, side, grid_.comm, &requests_[2 * place + 1]);
  }

  const Grid& grid_;
  MPI_Datatype columns_, rows_;
  MPI_Request requests_[2 * sides];
};

}  // namespace

std::unique_ptr<Exchange> datatype_exchange(const Grid& grid) {
  return std::make_unique<DatatypeExchange>(grid);
}

}  // namespace ghost
