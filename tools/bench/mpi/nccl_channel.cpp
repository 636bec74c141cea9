// SPDX-License-Identifier: Apache-2.0

#include "bench/mpi/channel.h"
#include "bench/mpi/nccl.h"

namespace fairlead::tools {
namespace {

class NcclChannel : public Channel {
 public:
  explicit NcclChannel(const Ranks& ranks) : pair_(ranks.pair), partner_(1 - ranks.rank) {}

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
    pair_.require(pair_.nccl.GroupStart(), "ncclGroupStart");
    for (int i = 0; i < messages; ++i) {
      if (to) start_receive(to, bytes);
      if (from) start_send(from, bytes);
    }
    pair_.require(pair_.nccl.GroupEnd(), "ncclGroupEnd");
    pair_.finish();
  }

 private:
  void start_send(const void* from, uint64_t bytes) {
    pair_.require(pair_.nccl.Send(from, bytes, nccl_int8, partner_, pair_.comm, nullptr), "ncclSend");
  }
  void start_receive(void* to, uint64_t bytes) {
    pair_.require(pair_.nccl.Recv(to, bytes, nccl_int8, partner_, pair_.comm, nullptr), "ncclRecv");
  }

  NcclRanks pair_;
  int partner_;
};

}  // namespace

std::unique_ptr<Channel> make_nccl_channel(const Ranks& ranks) {
  return std::make_unique<NcclChannel>(ranks);
}

}  // namespace fairlead::tools
