// SPDX-License-Identifier: Apache-2.0
//
// The messages are the same in every iteration, so they are described once and started again and again. Rows are sent
// in place, and the two arrays of the program swap roles: each array gets requests of its own, at its first exchange.

#include <map>
#include <vector>

#include "../exchange.h"
#include "../variants.h"

namespace ghost {
namespace {

class PersistentExchange : public Exchange {
 public:
  explicit PersistentExchange(const Grid& grid) : grid_(grid), columns_(grid, Memory::device), rows_(grid) {
    for (Side side : {left, right})
      add(&of_columns_, columns_.receive(side), columns_.send(side), columns_.count, side);
  }
  ~PersistentExchange() override {
    for (MPI_Request& request : of_columns_) MPI_Request_free(&request);
    for (auto& [x, requests] : of_rows_)
      for (MPI_Request& request : requests) MPI_Request_free(&request);
  }

  void start(double* x) override {
    columns_.pack(x);
    start_all(&of_columns_);
    if (grid_.corners) {
      wait_all(&of_columns_);
      columns_.unpack(x);
    }
    start_all(requests_of_rows(x));
  }

  void finish(double* x) override {
    wait_all(requests_of_rows(x));
    if (grid_.corners) return;
    wait_all(&of_columns_);
    columns_.unpack(x);
  }

 private:
  using Requests = std::vector<MPI_Request>;

  Requests* requests_of_rows(double* x) {
    auto [entry, added] = of_rows_.try_emplace(x);
    for (Side side : {bottom, top})
      for (int piece = 0; added && piece < rows_.pieces; ++piece)
        add(&entry->second, x + rows_.receive(side, piece), x + rows_.send(side, piece), rows_.count, side);
    return &entry->second;
  }

  void add(Requests* requests, double* receive, const double* send, int count, Side side) {
    int neighbour = grid_.neighbour[side];
    MPI_Recv_init(receive, count, MPI_DOUBLE, neighbour, opposite(side), grid_.comm, &requests->emplace_back());
    MPI_Send_init(send, count, MPI_DOUBLE, neighbour, side, grid_.comm, &requests->emplace_back());
  }
  static void start_all(Requests* requests) {
    MPI_Startall(static_cast<int>(requests->size()), requests->data());
  }
  static void wait_all(Requests* requests) {
    MPI_Waitall(static_cast<int>(requests->size()), requests->data(), MPI_STATUSES_IGNORE);
  }

  const Grid& grid_;
  Columns columns_;
  Rows rows_;
  Requests of_columns_;
  std::map<double*, Requests> of_rows_;  // by array
};

}  // namespace

std::unique_ptr<Exchange> persistent_exchange(const Grid& grid) {
  return std::make_unique<PersistentExchange>(grid);
}

}  // namespace ghost
