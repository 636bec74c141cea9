// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/messages/channel.h"
#include "bench/mpi/nccl.h"

namespace fairlead::tools {
namespace {

class NcclChannel : public Channel {
 public:
  explicit NcclChannel(MPI_Comm pair) : pair_(pair) {
    int rank = 0;
    MPI_Comm_rank(pair, &rank);
    partner_ = 1 - rank;
  }

  std::string name() const override { return pair_.name(); }

  void send(const void* from, uint64_t bytes) override {
    start_send(from, bytes);
    pair_.finish();
  }

  void receive(void* to, uint64_t bytes) override {
    start_receive(to, bytes);
    pair_.finish();
  }

  void window(const void* from, void* to, uint64_t bytes, int messages) override {
    pair_.require(pair_.nccl->group_start(), "ncclGroupStart");
    for (int i = 0; i < messages; ++i) {
      if (to) start_receive(to, bytes);
      if (from) start_send(from, bytes);
    }
    pair_.require(pair_.nccl->group_end(), "ncclGroupEnd");
    pair_.finish();
  }

 private:
  void start_send(const void* from, uint64_t bytes) {
    pair_.require(pair_.nccl->send(from, bytes, coll::NcclType::int8, partner_, pair_.comm, nullptr),
                  "ncclSend");
  }
  void start_receive(void* to, uint64_t bytes) {
    pair_.require(pair_.nccl->receive(to, bytes, coll::NcclType::int8, partner_, pair_.comm, nullptr),
                  "ncclRecv");
  }

  NcclRanks pair_;
  int partner_ = 0;
};

}  // namespace

std::unique_ptr<Channel> make_nccl_channel(MPI_Comm pair) {
  return std::make_unique<NcclChannel>(pair);
}

}  // namespace fairlead::tools
