// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include "bench/mpi/collective_channel.h"
#include "bench/mpi/nccl.h"

namespace fairlead::tools {
namespace {

using coll::NcclLibrary;
using coll::NcclOp;
using coll::NcclType;

NcclType nccl_type(Element element) {
  constexpr NcclType types[] = {NcclType::int8, NcclType::int32, NcclType::float32, NcclType::float64};
  return types[static_cast<int>(element)];
}

NcclOp nccl_operation(Reduction reduction) {
  constexpr NcclOp operations[] = {NcclOp::sum, NcclOp::prod, NcclOp::min, NcclOp::max};
  return operations[static_cast<int>(reduction)];
}

// Each call, and the wait for the device. What NCCL has no call for is sends and receives in a group.
class NcclCollective : public CollectiveChannel {
 public:
  explicit NcclCollective(const BenchArguments& arguments)
      : world_(MPI_COMM_WORLD),
        id_(*arguments.kind->collective),
        element_bytes_(element_type(arguments.element).bytes),
        type_(nccl_type(element_type(arguments.element).id)),
        operation_(nccl_operation(reduction_named(arguments.reduction))) {
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }

  std::string name() const override { return world_.name(); }

  std::string refusal(uint64_t elements) const override {
    if (id_ != Collective::reduce_scatter || elements % static_cast<uint64_t>(ranks_) == 0) return {};
    return fmt::format("NCCL wants equal shares, and {} elements are none for {} ranks", elements, ranks_);
  }

  void run(const CollectiveCall& c) override {
    const NcclLibrary& nccl = *world_.nccl;
    NcclLibrary::Communicator comm = world_.comm;
    switch (id_) {
      case Collective::allreduce:
        world_.require(nccl.all_reduce(c.from, c.to, c.elements, type_, operation_, comm, nullptr),
                       "ncclAllReduce");
        break;
      case Collective::bcast:
        world_.require(nccl.broadcast(c.from ? c.from : c.to, c.from ? const_cast<void*>(c.from) : c.to,
                                      c.elements, type_, c.root, comm, nullptr),
                       "ncclBroadcast");
        break;
      case Collective::reduce:
        world_.require(nccl.reduce(c.from, c.to, c.elements, type_, operation_, c.root, comm, nullptr),
                       "ncclReduce");
        break;
      case Collective::allgather:
        world_.require(nccl.all_gather(c.from, c.to, c.elements, type_, comm, nullptr), "ncclAllGather");
        break;
      case Collective::reduce_scatter:
        world_.require(nccl.reduce_scatter(c.from, c.to, c.elements / static_cast<uint64_t>(ranks_), type_,
                                           operation_, comm, nullptr),
                       "ncclReduceScatter");
        break;
      default:
        send_and_receive(c);
    }
    world_.finish();
  }

 private:
  void send_and_receive(const CollectiveCall& c) {
    const bool everyone = id_ == Collective::alltoall;
    // A block for each rank, or one for all.
    const bool send_blocks = id_ != Collective::gather, receive_blocks = id_ != Collective::scatter;
    auto block = [&](bool blocks, int peer) {
      return blocks ? static_cast<uint64_t>(peer) * c.elements * element_bytes_ : 0;
    };
    world_.require(world_.nccl->group_start(), "ncclGroupStart");
    for (int peer = 0; peer < ranks_; ++peer) {
      if (c.from && (everyone || id_ == Collective::scatter || peer == c.root))
        world_.require(world_.nccl->send(static_cast<const char*>(c.from) + block(send_blocks, peer),
                                         c.elements, type_, peer, world_.comm, nullptr),
                       "ncclSend");
      if (c.to && (everyone || id_ == Collective::gather || peer == c.root))
        world_.require(world_.nccl->receive(static_cast<char*>(c.to) + block(receive_blocks, peer),
                                            c.elements, type_, peer, world_.comm, nullptr),
                       "ncclRecv");
    }
    world_.require(world_.nccl->group_end(), "ncclGroupEnd");
  }

  NcclRanks world_;
  Collective id_;
  uint64_t element_bytes_;
  NcclType type_;
  NcclOp operation_;
  int ranks_ = 1;
};

}  // namespace

std::unique_ptr<CollectiveChannel> make_nccl_collective(const BenchArguments& arguments) {
  return std::make_unique<NcclCollective>(arguments);
}

}  // namespace fairlead::tools
