// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/streams/stream_operation.h"

#include <dlfcn.h>

#include <numeric>
#include <vector>

#include "bench/mpi/mpi4.h"
#include "bench/mpi/streams/enqueue_stream.h"

namespace fairlead::tools {
namespace {

// A block to each of some ranks, and one from each.
class Blocks : public StreamOperation {
 public:
  Blocks(uint64_t bytes, const Ranks& ranks, MPI_Comm comm, bool neighbors)
      : StreamOperation(bytes * (neighbors ? 2 : static_cast<uint64_t>(ranks.size - 1))),
        block_(bytes),
        rank_(ranks.rank),
        comm_(comm),
        neighbors_(neighbors) {
    const int before = (rank_ + ranks.size - 1) % ranks.size, behind = (rank_ + 1) % ranks.size;
    if (neighbors)
      partners_ = {{before, 1}, {behind, 0}};
    else
      for (int other = 0; other < ranks.size; ++other)
        if (other != rank_) partners_.push_back({other, static_cast<uint64_t>(rank_ - (rank_ > other))});
    counts_.assign(neighbors ? 2 : static_cast<size_t>(ranks.size), static_cast<int>(block_));
    if (!neighbors) counts_[static_cast<size_t>(rank_)] = 0;
    places_.resize(counts_.size());
    std::exclusive_scan(counts_.begin(), counts_.end(), places_.begin(), 0);
    ways_ = {{"enqueue", "Enqueue", [this](MPI_Comm stream) { enqueue(stream); }}};
  }

  void block() override {
    (neighbors_ ? MPI_Neighbor_alltoallv : MPI_Alltoallv)(sent(), counts_.data(), places_.data(), MPI_BYTE,
                                                          received(), counts_.data(), places_.data(),
                                                          MPI_BYTE, comm_);
  }

  // Two messages of one rank match in the order of its sends, in which it names its ranks.
  void by_nccl(NcclRanks& ranks, void* stream) override {
    ranks.require(ranks.nccl->group_start(), "ncclGroupStart");
    for (uint64_t i = 0; i < partners_.size(); ++i)
      ranks.require(ranks.nccl->send(at(sent(), i), block_, coll::NcclType::int8, partners_[i].rank,
                                     ranks.comm, stream),
                    "ncclSend");
    for (uint64_t i = partners_.size(); i-- > 0;)
      ranks.require(ranks.nccl->receive(at(received(), i), block_, coll::NcclType::int8, partners_[i].rank,
                                        ranks.comm, stream),
                    "ncclRecv");
    ranks.require(ranks.nccl->group_end(), "ncclGroupEnd");
  }

  const char* counts() const override { return "count_byte"; }
  const char* adds() const override { return "add_byte"; }

 protected:
  void enqueue(MPI_Comm stream) {
    require_mpi((neighbors_ ? MPIX_Neighbor_alltoallv_enqueue : MPIX_Alltoallv_enqueue)(
                    sent(), counts_.data(), places_.data(), MPI_BYTE, received(), counts_.data(),
                    places_.data(), MPI_BYTE, stream),
                neighbors_ ? "MPIX_Neighbor_alltoallv_enqueue" : "MPIX_Alltoallv_enqueue");
  }

  int partner() const { return partners_[0].rank; }

 private:
  struct Partner {
    int rank;
    uint64_t block;  // of that rank, for this one
  };

  void* at(void* buffer, uint64_t number) const { return static_cast<char*>(buffer) + number * block_; }
  uint64_t seed(int rank, uint64_t number) const {
    return (chains_ << 16) + (static_cast<uint64_t>(rank) << 8) + number;
  }

  void fill() override {
    ++chains_;
    for (uint64_t i = 0; i < partners_.size(); ++i) sent_.write_pattern(i * block_, block_, seed(rank_, i));
  }

  // The kernels count in the first block that a rank sends.
  unsigned long expect(int64_t steps, Buffer* received) const override {
    for (uint64_t i = 0; i < partners_.size(); ++i)
      received->write_pattern(i * block_, block_, seed(partners_[i].rank, partners_[i].block));
    unsigned char first = 0;
    received->read(0, &first, 1);
    unsigned long sum = 0;
    for (int64_t step = 0; step < steps; ++step) sum += partners_[0].block == 0 ? ++first : first;
    received->write(0, &first, 1);
    for (uint64_t i = 1; i < partners_.size(); ++i) {
      if (partners_[i].block != 0) continue;
      received->read(i * block_, &first, 1);
      first = static_cast<unsigned char>(first + steps);
      received->write(i * block_, &first, 1);
    }
    return sum;
  }

  uint64_t block_, chains_ = 0;
  int rank_;
  MPI_Comm comm_;
  bool neighbors_;
  std::vector<Partner> partners_;
  std::vector<int> counts_, places_;
};

// Each of two ranks sends to the other one and receives from it.
class Exchange final : public Blocks {
 public:
  Exchange(uint64_t bytes, const Ranks& ranks, MPI_Comm comm)
      : Blocks(bytes, ranks, comm, false), count_(static_cast<int>(bytes)) {
    ways_ = {{"enqueue", "Enqueue", [this](MPI_Comm stream) { by_messages(stream); }},
             {"alltoallv", "Alltoallv", [this](MPI_Comm stream) { enqueue(stream); }}};
    if (init_partitioned())
      ways_.push_back({"partitioned", "Partitioned", [this](MPI_Comm comm) { by_requests(comm); }});
  }
  ~Exchange() override {
    for (MPI_Request& request : requests_)
      if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
  }

  // The receive first, so that no message comes unexpected.
  void block() override {
    MPI_Request requests[2];
    MPI_Irecv(received(), count_, MPI_BYTE, partner(), message_tag, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent(), count_, MPI_BYTE, partner(), message_tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  }

 private:
  void by_messages(MPI_Comm comm) {
    require_mpi(MPIX_Sendrecv_enqueue(sent(), count_, MPI_BYTE, partner(), message_tag, received(), count_,
                                      MPI_BYTE, partner(), message_tag, comm, MPI_STATUS_IGNORE),
                "MPIX_Sendrecv_enqueue");
  }

  // False where the MPI has no such requests, or they may hang: those of Open MPI 5.0.
  bool init_partitioned() {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    const auto send_init = find_of_mpi4<int (*)(const void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
                                                MPI_Info, MPI_Request*)>("MPI_Psend_init");
    const auto receive_init = find_of_mpi4<int (*)(void*, int, MPI_Count, MPI_Datatype, int, int, MPI_Comm,
                                                   MPI_Info, MPI_Request*)>("MPI_Precv_init");
    if (!send_init || !receive_init || !dlsym(RTLD_DEFAULT, "MPIX_Pready_enqueue") ||
        std::string(version).find("Open MPI v5.0") != std::string::npos)
      return false;
    require_mpi(receive_init(received(), 1, count_, MPI_BYTE, partner(), message_tag, MPI_COMM_WORLD,
                             MPI_INFO_NULL, &requests_[0]),
                "MPI_Precv_init");
    require_mpi(send_init(sent(), 1, count_, MPI_BYTE, partner(), message_tag, MPI_COMM_WORLD, MPI_INFO_NULL,
                          &requests_[1]),
                "MPI_Psend_init");
    return true;
  }

  void by_requests(MPI_Comm comm) {
    for (MPI_Request& request : requests_)
      require_mpi(MPIX_Start_enqueue(&request, comm), "MPIX_Start_enqueue");
    require_mpi(MPIX_Pready_enqueue(0, requests_[1], comm), "MPIX_Pready_enqueue");
    require_mpi(MPIX_Waitall_enqueue(2, requests_, MPI_STATUSES_IGNORE), "MPIX_Waitall_enqueue");
  }

  int count_;
  MPI_Request requests_[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};  // the receive, the send
};

class Allreduce final : public StreamOperation {
 public:
  Allreduce(uint64_t bytes, int rank, int ranks)
      : StreamOperation(bytes), elements_(bytes / sizeof(float)), rank_(rank), ranks_(ranks) {
    ways_ = {{"enqueue", "Enqueue", [this](MPI_Comm comm) { enqueue(comm); }}};
  }

  void block() override {
    MPI_Allreduce(sent(), received(), static_cast<int>(elements_), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }

  void enqueue(MPI_Comm comm) {
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
                                                       uint64_t bytes, MPI_Comm comm) {
  switch (arguments.kind->id) {
    case Benchmark::enqueue:
      return std::make_unique<Exchange>(bytes, ranks, comm);
    case Benchmark::enqueue_allreduce:
      return std::make_unique<Allreduce>(bytes, ranks.rank, ranks.size);
    default:
      return std::make_unique<Blocks>(bytes, ranks, comm, arguments.kind->id == Benchmark::enqueue_neighbors);
  }
}

}  // namespace fairlead::tools
