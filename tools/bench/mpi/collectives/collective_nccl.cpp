// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "bench/device_copy.h"
#include "bench/mpi/collectives/collective_channel.h"
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

// Each call on a stream, and the wait for that. What NCCL has no call for is sends and receives in a group.
class NcclCollective : public CollectiveChannel {
 public:
  NcclCollective(const BenchArguments& arguments, int device)
      : arguments_(arguments),
        runtime_(runtime_with_devices(arguments)),
        stream_(runtime_, device, arguments),
        world_(MPI_COMM_WORLD),
        id_(*arguments.kind->collective),
        element_bytes_(element_type(arguments.element).bytes),
        type_(nccl_type(element_type(arguments.element).id)),
        operation_(nccl_operation(reduction_named(arguments.reduction))) {
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~NcclCollective() override {
    for (const auto& [call, graph] : graphs_) runtime_->destroy_graph(graph);
  }

  std::string name() const override {
    return world_.name() + (arguments_.symmetric ? ", symmetric windows" : "") +
           (arguments_.graph ? ", graphs" : "");
  }

  Buffer& buffer(Place place, uint64_t bytes) override {
    if (!arguments_.symmetric) return CollectiveChannel::buffer(place, bytes);
    return buffers_.emplace_back(place, Buffer::Lent{world_.symmetric_memory(bytes)});
  }

  std::string refusal(uint64_t elements) const override {
    if (id_ != Collective::reduce_scatter || elements % static_cast<uint64_t>(ranks_) == 0) return {};
    return fmt::format("NCCL wants equal shares, and {} elements are none for {} ranks", elements, ranks_);
  }

  void run(const CollectiveCall& c) override {
    if (arguments_.graph)
      require(runtime_->launch_graph(graph_of(c), stream_.get()), "cannot launch a graph");
    else
      submit(c);
    synchronize();
  }

 private:
  using Call = std::tuple<uint64_t, int, const void*, void*>;

  void require(device::Error error, const char* doing) const {
    tools::require(runtime_, error, arguments_, doing);
  }

  void synchronize() { require(runtime_->synchronize_stream(stream_.get()), "cannot wait for the stream"); }

  device::Graph graph_of(const CollectiveCall& c) {
    const Call key{c.elements, c.root, c.from, c.to};
    if (auto known = graphs_.find(key); known != graphs_.end()) return known->second;
    // NCCL connects the ranks in the first call, which is better not captured.
    submit(c);
    synchronize();
    require(runtime_->begin_capture(stream_.get(), device::CaptureMode::relaxed),
            "cannot capture the stream");
    submit(c);
    device::Graph graph = nullptr;
    require(runtime_->end_capture(stream_.get(), &graph), "cannot make a graph");
    return graphs_[key] = graph;
  }

  void submit(const CollectiveCall& c) {
    const NcclLibrary& nccl = *world_.nccl;
    NcclLibrary::Communicator comm = world_.comm;
    const NcclLibrary::Stream stream = native();
    switch (id_) {
      case Collective::allreduce:
        world_.require(nccl.all_reduce(c.from, c.to, c.elements, type_, operation_, comm, stream),
                       "ncclAllReduce");
        break;
      case Collective::bcast:
        world_.require(nccl.broadcast(c.from ? c.from : c.to, c.from ? const_cast<void*>(c.from) : c.to,
                                      c.elements, type_, c.root, comm, stream),
                       "ncclBroadcast");
        break;
      case Collective::reduce:
        world_.require(nccl.reduce(c.from, c.to, c.elements, type_, operation_, c.root, comm, stream),
                       "ncclReduce");
        break;
      case Collective::allgather:
        world_.require(nccl.all_gather(c.from, c.to, c.elements, type_, comm, stream), "ncclAllGather");
        break;
      case Collective::reduce_scatter:
        world_.require(nccl.reduce_scatter(c.from, c.to, c.elements / static_cast<uint64_t>(ranks_), type_,
                                           operation_, comm, stream),
                       "ncclReduceScatter");
        break;
      default:
        send_and_receive(c);
    }
  }

  NcclLibrary::Stream native() const { return runtime_->native(stream_.get()); }

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
                                         c.elements, type_, peer, world_.comm, native()),
                       "ncclSend");
      if (c.to && (everyone || id_ == Collective::gather || peer == c.root))
        world_.require(world_.nccl->receive(static_cast<char*>(c.to) + block(receive_blocks, peer),
                                            c.elements, type_, peer, world_.comm, native()),
                       "ncclRecv");
    }
    world_.require(world_.nccl->group_end(), "ncclGroupEnd");
  }

  const BenchArguments& arguments_;
  device::Runtime* runtime_;
  OwnedStream stream_;
  NcclRanks world_;
  std::map<Call, device::Graph> graphs_;
  Collective id_;
  uint64_t element_bytes_;
  NcclType type_;
  NcclOp operation_;
  int ranks_ = 1;
};

}  // namespace

std::unique_ptr<CollectiveChannel> make_nccl_collective(const BenchArguments& arguments, int device) {
  return std::make_unique<NcclCollective>(arguments, device);
}

}  // namespace fairlead::tools
