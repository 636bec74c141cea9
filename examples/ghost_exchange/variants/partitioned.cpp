// SPDX-License-Identifier: Apache-2.0
//
// Partitioned messages (MPI 4) are persistent ones whose parts may leave as soon as they are ready. Here a
// column's upper half is packed while its lower half is under way. Rows are there from the beginning: all
// their parts are ready at once.

#include "../exchange.h"
#include "../repeated_requests.h"
#include "../variants.h"

#if MPI_VERSION >= 4
#include <map>

namespace ghost {
namespace {

class PartitionedExchange : public Exchange {
 public:
  explicit PartitionedExchange(const Grid& grid)
      : grid_(grid), columns_(grid, Memory::device), rows_(grid), parts_(grid.column_rows() % 2 ? 1 : 2) {
    for (Side side : {left, right})
      add(&of_columns_, columns_.receive(side), columns_.send(side), parts_, columns_.count / parts_, side);
  }

  void start(double* x) override {
    of_columns_.start();
    for (int part = 0; part < parts_; ++part) {
      columns_.pack(x, part, parts_);
      for (size_t n = 1; n < of_columns_.size(); n += 2) MPI_Pready(part, of_columns_[n]);
    }
    if (grid_.corners) {
      of_columns_.wait();
      columns_.unpack(x);
    }
    RepeatedRequests* rows = requests_of_rows(x);
    rows->start();
    for (size_t n = 1; n < rows->size(); n += 2) MPI_Pready(0, (*rows)[n]);
  }

  void finish(double* x) override {
    requests_of_rows(x)->wait();
    if (grid_.corners) return;
    of_columns_.wait();
    columns_.unpack(x);
  }

 private:
  RepeatedRequests* requests_of_rows(double* x) {
    auto [entry, added] = of_rows_.try_emplace(x);
    for (Side side : {bottom, top})
      for (int piece = 0; added && piece < rows_.pieces; ++piece)
        add(&entry->second, x + rows_.receive(side, piece), x + rows_.send(side, piece), 1, rows_.count,
            side);
    return &entry->second;
  }

  // A neighbour that is not there is left out: not every MPI takes MPI_PROC_NULL here.
  void add(RepeatedRequests* requests, double* receive, double* send, int parts, int count, Side side) {
    if (grid_.at_edge(side)) return;
    int neighbour = grid_.neighbour[side];
    MPI_Precv_init(receive, parts, count, MPI_DOUBLE, neighbour, opposite(side), grid_.comm, MPI_INFO_NULL,
                   requests->add());
    MPI_Psend_init(send, parts, count, MPI_DOUBLE, neighbour, side, grid_.comm, MPI_INFO_NULL,
                   requests->add());
  }

  const Grid& grid_;
  Columns columns_;
  Rows rows_;
  const int parts_;
  RepeatedRequests of_columns_;                  // a receive, a send, and so on
  std::map<double*, RepeatedRequests> of_rows_;  // by array
};

}  // namespace

std::unique_ptr<Exchange> partitioned_exchange(const Grid& grid) {
  return std::make_unique<PartitionedExchange>(grid);
}

}  // namespace ghost
#endif
