// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/streams/stream_operation.h"

#include <vector>

#include "bench/mpi/streams/enqueue_stream.h"

namespace fairlead::tools {
namespace {

// Each of two ranks sends to the other one and receives from it.
class Exchange final : public StreamOperation {
 public:
  Exchange(uint64_t bytes, int rank)
      : StreamOperation(bytes), count_(static_cast<int>(bytes)), rank_(rank), partner_(1 - rank) {}

  // The receive first, so that no message comes unexpected.
  void block() override {
    MPI_Request requests[2];
    MPI_Irecv(received(), count_, MPI_BYTE, partner_, message_tag, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent(), count_, MPI_BYTE, partner_, message_tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }

  void enqueue(MPI_Comm comm) override {
    require_mpi(MPIX_Sendrecv_enqueue(sent(), count_, MPI_BYTE, partner_, message_tag, received(), count_,
                                      MPI_BYTE, partner_, message_tag, comm, MPI_STATUS_IGNORE),
                "MPIX_Sendrecv_enqueue");
  }

  bool has_collective() const override { return true; }
  void enqueue_collective(MPI_Comm comm) override {
    int counts[2] = {};
    constexpr int places[2] = {};
    counts[partner_] = count_;
    require_mpi(
        MPIX_Alltoallv_enqueue(sent(), counts, places, MPI_BYTE, received(), counts, places, MPI_BYTE, comm),
        "MPIX_Alltoallv_enqueue");
  }

  void by_nccl(NcclRanks& pair, void* stream) override {
    pair.require(pair.nccl->group_start(), "ncclGroupStart");
    pair.require(pair.nccl->receive(received(), bytes_, coll::NcclType::int8, partner_, pair.comm, stream),
                 "ncclRecv");
    pair.require(pair.nccl->send(sent(), bytes_, coll::NcclType::int8, partner_, pair.comm, stream),
                 "ncclSend");
    pair.require(pair.nccl->group_end(), "ncclGroupEnd");
  }

  const char* counts() const override { return "count_byte"; }
  const char* adds() const override { return "add_byte"; }

 private:
  uint64_t seed(int rank) const { return 2 * chains_ + static_cast<uint64_t>(rank); }

  void fill() override {
    ++chains_;
    sent_.write_pattern(0, bytes_, seed(rank_));
  }

  unsigned long expect(int64_t steps, Buffer* received) const override {
    received->write_pattern(0, bytes_, seed(partner_));
    unsigned char first = 0;
    received->read(0, &first, 1);
    unsigned long sum = 0;
    for (int64_t step = 0; step < steps; ++step) sum += ++first;
    received->write(0, &first, 1);
    return sum;
  }

  int count_, rank_, partner_;
  uint64_t chains_ = 0;
};

class Allreduce final : public StreamOperation {
 public:
  Allreduce(uint64_t bytes, int rank, int ranks)
      : StreamOperation(bytes), elements_(bytes / sizeof(float)), rank_(rank), ranks_(ranks) {}

  void block() override {
    MPI_Allreduce(sent(), received(), static_cast<int>(elements_), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

  void enqueue(MPI_Comm comm) override {
    require_mpi(
        MPIX_Allreduce_enqueue(sent(), received(), static_cast<int>(elements_), MPI_FLOAT, MPI_SUM, comm),
        "MPIX_Allreduce_enqueue");
  }

  void by_nccl(NcclRanks& world, void* stream) override {
    world.require(world.nccl->all_reduce(sent(), received(), elements_, coll::NcclType::float32,
                                         coll::NcclOp::sum, world.comm, stream),
                  "ncclAllReduce");
  }

  const char* counts() const override { return "count_float"; }
  const char* adds() const override { return "add_float"; }

 private:
  // Of small whole numbers every sum is exact; the first element is the counter.
  static float element(uint64_t number, int rank) {
    return number == 0 ? 0 : static_cast<float>((number + static_cast<uint64_t>(rank)) % 61);
  }

  void fill() override {
    std::vector<float> values(elements_);
    for (uint64_t i = 0; i < elements_; ++i) values[i] = element(i, rank_);
    sent_.write(0, values.data(), elements_ * sizeof(float));
  }

  unsigned long expect(int64_t steps, Buffer* received) const override {
    std::vector<float> values(elements_);
    for (int rank = 0; rank < ranks_; ++rank)
      for (uint64_t i = 0; i < elements_; ++i) values[i] += element(i, rank);
    unsigned long sum = 0;
    for (int64_t step = 1; step <= steps; ++step) {
      values[0] = static_cast<float>(ranks_ * (step % 1001));
      sum += static_cast<unsigned long>(values[0]);
    }
    received->write(0, values.data(), elements_ * sizeof(float));
    return sum;
  }

  uint64_t elements_;
  int rank_, ranks_;
};

}  // namespace

void StreamOperation::begin() {
  fill();
  received_.clear(0, bytes_);
  sum_.clear(0, sizeof(unsigned long));
}

bool StreamOperation::right(int64_t steps) const {
  Buffer expected(Place::plain, bytes_);
  const unsigned long sum = expect(steps, &expected);
  return sum_.holds(0, &sum, sizeof sum) && received_.holds(0, expected.address(), bytes_);
}

std::unique_ptr<StreamOperation> make_stream_operation(const BenchArguments& arguments, const Ranks& ranks,
                                                       uint64_t bytes) {
  if (arguments.kind->id == Benchmark::enqueue) return std::make_unique<Exchange>(bytes, ranks.rank);
  return std::make_unique<Allreduce>(bytes, ranks.rank, ranks.size);
}

}  // namespace fairlead::tools
