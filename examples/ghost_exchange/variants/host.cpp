// SPDX-License-Identifier: Apache-2.0
//
// For an MPI without GPU support: copies the cells to page-locked host memory before it sends them, and to the GPU
// after it has received them. Each side takes one copy, so whole rows are sent, with or without corners.

#include "../exchange.h"
#include "../variants.h"

namespace ghost {
namespace {

class HostBuffer {
 public:
  explicit HostBuffer(size_t cells) { gpuCheck(gpuMallocHost(&address_, cells * sizeof(double))); }
  ~HostBuffer() { gpuCheck(gpuFreeHost(address_)); }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  double* data() const { return address_; }

 private:
  double* address_ = nullptr;
};

class HostExchange : public Exchange {
 public:
  explicit HostExchange(const Grid& grid)
      : grid_(grid), columns_(grid, Memory::device), row_count_(grid.halo * grid.width()),
        sent_{HostBuffer(row_count_), HostBuffer(row_count_), HostBuffer(columns_.count), HostBuffer(columns_.count)},
        received_{HostBuffer(row_count_), HostBuffer(row_count_), HostBuffer(columns_.count),
                  HostBuffer(columns_.count)} {}

  void start(double* x) override {
    columns_.pack(x);
    for (Side side : {left, right}) to_host(side, columns_.send(side), columns_.count);
    swap(left, right, columns_.count);
    for (Side side : {left, right}) from_host(side, columns_.receive(side), columns_.count);
    columns_.unpack(x);
  }

  void finish(double* x) override {
    for (Side side : {bottom, top})
      to_host(side, x + grid_.at(side == bottom ? 0 : grid_.jsize - grid_.halo, -grid_.halo), row_count_);
    swap(bottom, top, row_count_);
    for (Side side : {bottom, top})
      from_host(side, x + grid_.at(side == bottom ? -grid_.halo : grid_.jsize, -grid_.halo), row_count_);
  }

 private:
  void to_host(Side side, const double* from, int count) {
    if (grid_.at_edge(side)) return;
    gpuCheck(gpuMemcpy(sent_[side].data(), from, count * sizeof(double), gpuMemcpyDeviceToHost));
  }

  void from_host(Side side, double* to, int count) {
    if (grid_.at_edge(side)) return;
    gpuCheck(gpuMemcpy(to, received_[side].data(), count * sizeof(double), gpuMemcpyHostToDevice));
  }

  void swap(Side one, Side other, int count) {
    MPI_Request requests[4];
    int n = 0;
    for (Side side : {one, other})
      MPI_Irecv(received_[side].data(), count, MPI_DOUBLE, grid_.neighbour[side], opposite(side), grid_.comm,
                &requests[n++]);
    for (Side side : {one, other})
      MPI_Isend(sent_[side].data(), count, MPI_DOUBLE, grid_.neighbour[side], side, grid_.comm, &requests[n++]);
    MPI_Waitall(n, requests, MPI_STATUSES_IGNORE);
  }

  const Grid& grid_;
  Columns columns_;
  const int row_count_;
  HostBuffer sent_[sides], received_[sides];
};

}  // namespace

std::unique_ptr<Exchange> host_exchange(const Grid& grid) {
  return std::make_unique<HostExchange>(grid);
}

}  // namespace ghost
