// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/hierarchical_collective.h"

#include <algorithm>
#include <climits>
#include <deque>
#include <optional>

#include "base/log.h"
#include "base/options.h"
#include "coll/choice.h"
#include "device/buffer_pool.h"
#include "device/classify.h"
#include "mpi/check/stream_check.h"
#include "mpi/coll/agreement.h"
#include "mpi/coll/collective_operation.h"
#include "mpi/coll/collective_work.h"
#include "mpi/coll/nodes/packed_buffer.h"
#include "mpi/coll/nodes/slice_exchange.h"
#include "mpi/core/error_handler.h"
#include "mpi/core/record.h"
#include "mpi/core/requests/poll.h"
#include "mpi/datatype/layout.h"
#include "mpi/datatype/reduction_types.h"
#include "observe/statistics.h"
#include "packing/move.h"

namespace fairlead::mpi {
namespace {

// The number of pieces of a message in transfer between nodes at once.
constexpr uint64_t segments_under_way = 4;
uint64_t bytes_of(MPI_Count count, MPI_Datatype datatype) {
  return static_cast<uint64_t>(packed_bytes(count, datatype));
}

// The bytes of a piece of a message: the first pieces of short messages leave early, and long ones are copied
// fast.
uint64_t segment_of(uint64_t bytes) {
  const auto longest = static_cast<uint64_t>(node_limits().segment);
  return std::clamp(bytes / segments_under_way, longest / 4, longest);
}

// Those of a block's piece in a reduce-scatter, which passes pieces of all blocks at once: of so many ranks
// that the pieces are not very short.
constexpr int ranks_in_scatter = 256;
uint64_t longest_part(const NodeHierarchy& hierarchy) {
  return static_cast<uint64_t>(node_limits().segment) / static_cast<uint64_t>(hierarchy.ranks());
}

// If a node has one rank only, the hierarchy competes with segments that the host MPI alone reduces. Open MPI
// reduces fast but for its reduce-scatter, MPICH slowly but for its (H200, Open MPI 5.0.11, MPICH 5.0.2).
#if defined(OPEN_MPI)
constexpr bool reduces_fast = true;
#else
constexpr bool reduces_fast = false;
#endif
uint64_t single_ranks_from(const CollectiveCall& call) {
  const auto longest = static_cast<uint64_t>(node_limits().segment);
  const bool scatters = call.function == Collective::reduce_scatter_block;
  return call.reduces() && scatters != reduces_fast ? longest : longest / 4;
}

// The memory for one piece of the message. A later piece reuses it.
struct PieceMemory {
  PieceMemory(int device, uint64_t scratch_bytes, ExchangeKind kind, uint64_t bytes, uint64_t element,
              int nodes)
      : scratch(device, scratch_bytes), exchange(kind, bytes, element, nodes) {}
  bool valid() const { return scratch.valid() && exchange.valid(); }

  Scratch scratch;
  ExchangeMemory exchange;
};

// A piece of the message, cut into slices: for each local rank, the number of elements and the first element.
struct Segment {
  Segment(const NodeHierarchy& hierarchy, PieceMemory& its_room, uint64_t from, uint64_t length,
          uint64_t element)
      : room(its_room), begin(from), bytes(length) {
    coll::Slices slices = slices_of(hierarchy, length, element);
    for (uint64_t position = 0; position < hierarchy.neighbors().size(); ++position) {
      offsets.push_back(static_cast<int>(slices.begin(position)));
      counts.push_back(static_cast<int>(slices.length(position)));
    }
    auto position = static_cast<uint64_t>(hierarchy.my_local_rank());
    my_begin = slices.begin(position) * element;
    my_bytes = slices.length(position) * element;
  }
  static coll::Slices slices_of(const NodeHierarchy& hierarchy, uint64_t bytes, uint64_t element) {
    constexpr uint64_t grain = 256;
    return {bytes / element, static_cast<uint64_t>(hierarchy.slices()), grain};
  }

  PieceMemory& room;
  uint64_t begin, bytes;  // within the message
  std::vector<int> counts, offsets;
  uint64_t my_begin, my_bytes;  // this rank's slice, in the segment
  std::optional<SliceExchange> exchange;
};

class HierarchicalCollective {
 public:
  HierarchicalCollective(const CollectiveCall& call, NodeHierarchy& hierarchy)
      : call_(call), hierarchy_(hierarchy), node_(communicator_state_of(hierarchy.node())) {}

  int run() {
    switch (call_.function) {
      case Collective::bcast:
        return bcast();
      case Collective::allgather:
        return allgather();
      case Collective::reduce_scatter_block:
        return reduce_scatter();
      default:
        return reduce();
    }
  }

 private:
  // The root broadcasts the message within its node. In every other node each member receives a slice from
  // the member with the same local rank there, and then the rest from its neighbours.
  int bcast() {
    PackedBuffer buffer(call_.recvbuf, call_.recvcount, call_.recvtype);
    const int root_node = hierarchy_.node_of(call_.root);
    const bool has_it = hierarchy_.my_node() == root_node;
    const bool is_root = rank() == call_.root;
    if (!ready(buffer.valid() && (!is_root || buffer.load()), bytes_of(call_.recvcount, call_.recvtype), 1,
               ExchangeKind::bcast))
      return MPI_ERR_NO_MEM;
    auto begin = [&](Segment& segment) {
      char* data = buffer.data() + segment.begin;
      char* slice = data + segment.my_begin;
      if (has_it) note(node_bcast(data, static_cast<int>(segment.bytes)));
      exchange(segment, {.kind = ExchangeKind::bcast,
                         .from = slice,
                         .to = has_it ? std::vector<void*>{} : std::vector<void*>{slice},
                         .bytes = segment.my_bytes,
                         .root_node = root_node});
    };
    auto end = [&](Segment& segment) {
      if (!has_it)
        note(node_allgather(buffer.data() + segment.begin, segment.counts, segment.offsets, MPI_BYTE));
    };
    by_segments(begin, end);
    if (!is_root && !buffer.store()) note(MPI_ERR_OTHER);
    return agreed_error();
  }

  // In each node, a reduce-scatter leaves a slice of the node's result with each member. The members with the
  // same local rank reduce these slices over the nodes. Then the root gathers the slices of its node, or all
  // ranks gather those of theirs.
  int reduce() {
    const bool to_all = call_.function == Collective::allreduce;
    const int root_node = to_all ? 0 : hierarchy_.node_of(call_.root);
    const bool at_root_node = !to_all && hierarchy_.my_node() == root_node;
    const ExchangeKind kind = to_all ? ExchangeKind::allreduce : ExchangeKind::reduce;
    const uint64_t element = reduced_element_bytes(call_.recvtype);
    PackedBuffer input = input_of(call_.sendcount);
    PackedBuffer output = output_of(to_all || call_.root == rank() ? call_.sendcount : 0);
    if (!ready(input.valid() && output.valid() && input.load(),
               static_cast<uint64_t>(call_.sendcount) * element, element, kind))
      return MPI_ERR_NO_MEM;
    const char* from = input.data();
    char* result = output.data();
    auto begin = [&](Segment& segment) {
      void* scratch = segment.room.scratch.data();
      if (!alone()) note(node_reduce_scatter(from + segment.begin, scratch, segment.counts));
      Slice slice{.kind = kind,
                  .from = alone() ? from + segment.begin : scratch,
                  .to = {},
                  .bytes = segment.my_bytes,
                  .root_node = root_node,
                  .datatype = call_.recvtype,
                  .op = call_.op};
      if (to_all) slice.to = {result + segment.begin + segment.my_begin};
      if (at_root_node) slice.to = {alone() ? result + segment.begin : scratch};
      exchange(segment, slice);
    };
    auto end = [&](Segment& segment) {
      if (to_all)
        note(node_allgather(result + segment.begin, segment.counts, segment.offsets, call_.recvtype));
      if (at_root_node && !alone())
        note(node_gather(segment.room.scratch.data(), result ? result + segment.begin : nullptr,
                         segment.counts, segment.offsets));
    };
    by_segments(begin, end);
    if (!output.store()) note(MPI_ERR_OTHER);
    return agreed_error();
  }

  // Each member exchanges its block with the members of the same local rank in the other nodes. Then the
  // members of each node exchange the blocks that they have received.
  int allgather() {
    int size = 0;
    PMPI_Comm_size(call_.comm, &size);
    PackedBuffer result(call_.recvbuf, size * call_.recvcount, call_.recvtype);
    const bool in_place = call_.in_place();  // then the send arguments are not significant
    PackedBuffer own(const_cast<void*>(call_.sendbuf), in_place ? 0 : call_.sendcount,
                     in_place ? MPI_BYTE : call_.sendtype);
    uint64_t block = bytes_of(call_.recvcount, call_.recvtype);
    bool loaded = result.valid() && own.valid() && (in_place ? result.load() : own.load());
    if (!ready(loaded, block, 1, ExchangeKind::allgather)) return MPI_ERR_NO_MEM;
    auto block_of = [&](int node, int position) {
      return static_cast<uint64_t>(hierarchy_.members(node)[static_cast<size_t>(position)]) * block;
    };
    char* mine =
        in_place ? result.data() + block_of(hierarchy_.my_node(), hierarchy_.my_local_rank()) : own.data();
    auto begin = [&](Segment& segment) {
      Slice slice{
          .kind = ExchangeKind::allgather, .from = mine + segment.begin, .to = {}, .bytes = segment.bytes};
      for (int node = 0; node < hierarchy_.nodes(); ++node)
        slice.to.push_back(result.data() + block_of(node, hierarchy_.my_local_rank()) + segment.begin);
      exchange(segment, slice);
    };
    auto end = [&](Segment& segment) {
      std::vector<int> counts(hierarchy_.neighbors().size(), static_cast<int>(segment.bytes)), offsets;
      for (int node = 0; node < hierarchy_.nodes(); ++node) {
        offsets.clear();
        for (int position = 0; position < static_cast<int>(counts.size()); ++position)
          offsets.push_back(static_cast<int>(block_of(node, position)));
        note(node_allgather(result.data() + segment.begin, counts, offsets, MPI_BYTE));
      }
    };
    by_segments(begin, end);
    if (!result.store()) note(MPI_ERR_OTHER);
    return agreed_error();
  }

  // In each node, a reduce-scatter leaves with each member the node's result for the blocks of all members
  // that have its local rank. These exchange and reduce them: each gets its own block.
  int reduce_scatter() {
    const uint64_t element = reduced_element_bytes(call_.recvtype);
    const uint64_t block = static_cast<uint64_t>(call_.recvcount) * element;
    PackedBuffer input = input_of(call_.recvcount * hierarchy_.ranks()), output = output_of(call_.recvcount);
    if (!ready(input.valid() && output.valid() && input.load(), block, element, ExchangeKind::reduce_scatter))
      return MPI_ERR_NO_MEM;
    const char* from = input.data();
    auto begin = [&](Segment& segment) {
      const int device = segment.room.scratch.on_device() || device::device_at(from) >= 0 ? device_ : -1;
      const uint64_t nodes = static_cast<uint64_t>(hierarchy_.nodes()), mine = nodes * segment.bytes;
      char* const packed = static_cast<char*>(segment.room.scratch.data());
      char* to = packed;
      std::deque<device::Copy> copies;
      for (size_t position = 0; position < hierarchy_.neighbors().size(); ++position)
        for (int node = 0; node < hierarchy_.nodes(); ++node, to += segment.bytes) {
          const auto member = static_cast<uint64_t>(hierarchy_.members(node)[position]);
          note(copies.emplace_back().enqueue(device, to, from + member * block + segment.begin,
                                             segment.bytes));
        }
      device::start_enqueued();
      for (device::Copy& copy : copies) note(copy.wait());
      const std::vector<int> counts(hierarchy_.neighbors().size(), static_cast<int>(mine / element));
      if (!alone()) note(node_reduce_scatter(packed, to, counts));
      exchange(segment, {.kind = ExchangeKind::reduce_scatter,
                         .from = alone() ? packed : to,
                         .to = {output.data() + segment.begin},
                         .bytes = mine,
                         .datatype = call_.recvtype,
                         .op = call_.op});
    };
    by_segments(begin, [](const Segment&) {});
    if (!output.store()) note(MPI_ERR_OTHER);
    return agreed_error();
  }

  // The buffers of a reduction.
  PackedBuffer input_of(MPI_Count count) const {
    void* from = call_.in_place() ? call_.recvbuf : const_cast<void*>(call_.sendbuf);
    return {from, count, call_.recvtype, 0, Padding::kept};
  }
  PackedBuffer output_of(MPI_Count count) const {
    return {call_.recvbuf, count, call_.recvtype, 0, Padding::kept};
  }

  // Allocates the memory for a message of `bytes` bytes. True if all members are ready; a member that is not
  // ready must not leave alone.
  bool ready(bool so_far, uint64_t bytes, uint64_t element, ExchangeKind kind) {
    bytes_ = bytes;
    element_ = element;
    const bool scatters = kind == ExchangeKind::reduce_scatter;
    const uint64_t piece = scatters ? longest_part(hierarchy_) : segment_of(bytes);
    segment_bytes_ = std::max(piece / element, uint64_t{1}) * element;
    const uint64_t longest = std::min(segment_bytes_, bytes);
    const uint64_t nodes = static_cast<uint64_t>(hierarchy_.nodes());
    uint64_t exchanged = Segment::slices_of(hierarchy_, longest, element).longest() * element;
    if (kind == ExchangeKind::allgather) exchanged = longest;
    if (scatters) exchanged = nodes * longest;
    uint64_t scratch = is_reduction(kind) ? exchanged : 0;
    if (scatters) scratch += hierarchy_.neighbors().size() * exchanged;
    device_ = call_.in_place() ? -1 : device::device_at(call_.sendbuf);
    if (device_ < 0) device_ = device::device_at(call_.recvbuf);
    for (uint64_t n = 0; n < std::min((bytes + longest - 1) / longest, segments_under_way); ++n)
      rooms_.emplace_back(device_, scratch, kind, exchanged, element, hierarchy_.nodes());
    so_far &= std::all_of(rooms_.begin(), rooms_.end(), [](const PieceMemory& room) { return room.valid(); });
    note(so_far ? MPI_SUCCESS : MPI_ERR_NO_MEM);
    return agreed_error() == MPI_SUCCESS;
  }

  // `begin` starts the transfer of a segment between the nodes; `end` follows when the segment has arrived.
  // All members call both in the same order and continue after an error, because the other members depend on
  // them.
  template <class Begin, class End>
  void by_segments(Begin begin, End end) {
    std::deque<Segment> under_way;
    auto finish_first = [&] {
      if (std::optional<SliceExchange>& exchange = under_way.front().exchange) {
        MPI_Status ignored;
        engine().wait(*exchange);
        engine().remove(&*exchange);
        note(exchange->finish(&ignored));
      }
      end(under_way.front());
      under_way.pop_front();
    };
    size_t next_room = 0;
    for (uint64_t at = 0; at < bytes_; at += segment_bytes_) {
      if (under_way.size() == rooms_.size()) finish_first();
      PieceMemory& room = rooms_[next_room++ % rooms_.size()];
      begin(under_way.emplace_back(hierarchy_, room, at, std::min(segment_bytes_, bytes_ - at), element_));
    }
    while (!under_way.empty()) finish_first();
  }

  void exchange(Segment& segment, const Slice& slice) {
    if (!hierarchy_.has_slice() || slice.bytes == 0) return;
    segment.exchange.emplace(hierarchy_, segment.room.exchange, slice);
    segment.exchange->start();
    engine().add(&*segment.exchange);
  }

  void note(int result) {
    if (error_ == MPI_SUCCESS) error_ = result;
  }
  void note(device::Error error) { note(error == device::Error::none ? MPI_SUCCESS : MPI_ERR_OTHER); }

  // An error of any member is an error of all.
  int agreed_error() {
    int worst = error_ == MPI_SUCCESS ? 0 : 1;
    note(poll_host("a collective over several nodes", hierarchy_.all(), [&](MPI_Request* request) {
      return real.Iallreduce(MPI_IN_PLACE, &worst, 1, MPI_INT, MPI_MAX, hierarchy_.all(), request);
    }));
    if (worst) note(MPI_ERR_OTHER);
    return error_;
  }

  // Collectives within the node, on the GPU where that is possible.

  int in_node(const CollectiveCall& call) {
    return run_collective(node_, call, regions_of(call, node_->position()));
  }

  int node_bcast(void* buffer, int bytes) {
    return in_node({.function = Collective::bcast,
                    .comm = hierarchy_.node(),
                    .sendbuf = buffer,
                    .recvbuf = buffer,
                    .sendcount = bytes,
                    .recvcount = bytes,
                    .sendtype = MPI_BYTE,
                    .recvtype = MPI_BYTE,
                    .root = hierarchy_.local_rank_of(call_.root)});
  }

  int node_reduce_scatter(const void* from, void* to, const std::vector<int>& counts) {
    return in_node({.function = Collective::reduce_scatter,
                    .comm = hierarchy_.node(),
                    .sendbuf = from,
                    .recvbuf = to,
                    .recvcounts = counts.data(),
                    .sendtype = call_.recvtype,
                    .recvtype = call_.recvtype,
                    .op = call_.op});
  }

  int node_allgather(void* buffer, const std::vector<int>& counts, const std::vector<int>& offsets,
                     MPI_Datatype datatype) {
    // Quirk allgatherv_of_one.
    if (counts.size() == 1) return MPI_SUCCESS;
    return in_node({.function = Collective::allgatherv,
                    .comm = hierarchy_.node(),
                    .sendbuf = MPI_IN_PLACE,
                    .recvbuf = buffer,
                    .recvcounts = counts.data(),
                    .rdispls = offsets.data(),
                    .sendtype = datatype,
                    .recvtype = datatype});
  }

  int node_gather(const void* from, void* to, const std::vector<int>& counts,
                  const std::vector<int>& offsets) {
    return in_node({.function = Collective::gatherv,
                    .comm = hierarchy_.node(),
                    .sendbuf = from,
                    .recvbuf = to,
                    .sendcount = counts[position()],
                    .recvcounts = counts.data(),
                    .rdispls = offsets.data(),
                    .sendtype = call_.recvtype,
                    .recvtype = call_.recvtype,
                    .root = hierarchy_.local_rank_of(call_.root)});
  }

  // Is this rank the only one of its node?
  bool alone() const { return hierarchy_.neighbors().size() == 1; }
  int rank() const { return hierarchy_.neighbors()[position()]; }
  size_t position() const { return static_cast<size_t>(hierarchy_.my_local_rank()); }

  const CollectiveCall& call_;
  NodeHierarchy& hierarchy_;
  std::shared_ptr<CommunicatorState> node_;
  uint64_t bytes_ = 0, element_ = 1, segment_bytes_ = 0;
  int device_ = -1;  // of the input, which another device may have no access to; else of the output
  std::deque<PieceMemory> rooms_;
  int error_ = MPI_SUCCESS;
};

}  // namespace

bool suits_hierarchy(const CollectiveCall& call, uint64_t length, CommunicatorState& state) {
  constexpr Collective served[] = {Collective::bcast, Collective::allgather, Collective::reduce,
                                   Collective::allreduce, Collective::reduce_scatter_block};
  if (std::ranges::find(served, call.function) == std::end(served)) return false;
  kernels::ReduceOp op;
  kernels::Element element;
  if (call.op != MPI_OP_NULL && !kernel_for(call.op, call.recvtype, &op, &element)) return false;
  const bool gathers = call.function == Collective::allgather;
  if (gathers && state.position().size * packed_bytes(call.recvcount, call.recvtype) > INT_MAX) return false;
  const NodeHierarchy& hierarchy = state.hierarchy();
  if (!hierarchy.usable()) return false;
  if (hierarchy.slices() == 1 && length < single_ranks_from(call)) return false;
  if (call.function == Collective::reduce_scatter_block)
    return hierarchy.regular() && hierarchy.ranks() <= ranks_in_scatter;
  if (!gathers) return true;
  // In each node, one collective moves what one node has contributed, and each rank keeps a segment of every
  // node in page-locked memory.
  const auto block = static_cast<int64_t>(bytes_of(call.recvcount, call.recvtype));
  const int64_t of_a_node = block * static_cast<int64_t>(hierarchy.neighbors().size());
  constexpr int64_t longest_room = int64_t{64} << 20;
  return hierarchy.regular() && of_a_node >= node_limits().segment / 8 &&
         hierarchy.nodes() * std::min(block, node_limits().segment) <= longest_room;
}

int run_hierarchical(const CollectiveCall& call, CommunicatorState& state) {
  return HierarchicalCollective(call, state.hierarchy()).run();
}

}  // namespace fairlead::mpi
