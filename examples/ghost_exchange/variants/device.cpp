// SPDX-License-Identifier: Apache-2.0
//
// Passes device buffers to MPI, which must be GPU-aware. This file is also the variants "managed", with managed memory,
// and "overlap", with work for the GPU between start() and finish().

#include <vector>

#include "../exchange.h"
#include "../variants.h"

namespace ghost {
namespace {

class DeviceExchange : public Exchange {
 public:
  DeviceExchange(const Grid& grid, Memory memory) : grid_(grid), columns_(grid, memory), rows_(grid) {}

  void start(double* x) override {
    columns_.pack(x);
    for (Side side : {left, right})
      add(columns_.receive(side), columns_.send(side), columns_.count, side);
    if (grid_.corners) {
      wait();
      columns_.unpack(x);
    }
    for (Side side : {bottom, top})
      for (int piece = 0; piece < rows_.pieces; ++piece)
        add(x + rows_.receive(side, piece), x + rows_.send(side, piece), rows_.count, side);
  }

  void finish(double* x) override {
    wait();
    if (!grid_.corners) columns_.unpack(x);
  }

 private:
  void add(double* receive, const double* send, int count, Side side) {
    int neighbour = grid_.neighbour[side];
    MPI_Irecv(receive, count, MPI_DOUBLE, neighbour, opposite(side), grid_.comm, &requests_.emplace_back());
    MPI_Isend(send, count, MPI_DOUBLE, neighbour, side, grid_.comm, &requests_.emplace_back());
  }

  void wait() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
  }

  const Grid& grid_;
  Columns columns_;
  Rows rows_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

std::unique_ptr<Exchange> device_exchange(const Grid& grid) {
  return std::make_unique<DeviceExchange>(grid, Memory::device);
}

std::unique_ptr<Exchange> managed_exchange(const Grid& grid) {
  return std::make_unique<DeviceExchange>(grid, Memory::managed);
}

}  // namespace ghost
