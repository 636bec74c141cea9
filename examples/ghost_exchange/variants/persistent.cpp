// SPDX-License-Identifier: Apache-2.0
//
// The messages are the same in every iteration, so they are described once and started again and again. Rows
// are sent in place, and the two arrays of the program swap roles: each array gets requests of its own, at
// its first exchange.

#include <map>

#include "../exchange.h"
#include "../repeated_requests.h"
#include "../variants.h"

namespace ghost {
namespace {

class PersistentExchange : public Exchange {
 public:
  explicit PersistentExchange(const Grid& grid) : grid_(grid), columns_(grid, Memory::device), rows_(grid) {
    for (Side side : {left, right})
      add(&of_columns_, columns_.receive(side), columns_.send(side), columns_.count, side);
  }

  void start(double* x) override {
    columns_.pack(x);
    of_columns_.start();
    if (grid_.corners) {
      of_columns_.wait();
      columns_.unpack(x);
    }
    requests_of_rows(x)->start();
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
        add(&entry->second, x + rows_.receive(side, piece), x + rows_.send(side, piece), rows_.count, side);
    return &entry->second;
  }

  void add(RepeatedRequests* requests, double* receive, const double* send, int count, Side side) {
    int neighbour = grid_.neighbour[side];
    MPI_Recv_init(receive, count, MPI_DOUBLE, neighbour, opposite(side), grid_.comm, requests->add());
    MPI_Send_init(send, count, MPI_DOUBLE, neighbour, side, grid_.comm, requests->add());
  }

  const Grid& grid_;
  Columns columns_;
  Rows rows_;
  RepeatedRequests of_columns_;
  std::map<double*, RepeatedRequests> of_rows_;  // by array
};

}  // namespace

std::unique_ptr<Exchange> persistent_exchange(const Grid& grid) {
  return std::make_unique<PersistentExchange>(grid);
}

}  // namespace ghost
