// SPDX-License-Identifier: Apache-2.0

#include "mpi/between_nodes.h"

#include <algorithm>
#include <climits>
#include <deque>
#include <string>

#include "base/options.h"
#include "base/statistics.h"
#include "device/buffer_pool.h"
#include "device/classify.h"
#include "mpi/collective.h"
#include "mpi/collective_choice.h"
#include "mpi/layout.h"
#include "mpi/reduction_types.h"
#include "mpi/slice_exchange.h"

namespace fairlead::mpi {
namespace {

// Pieces of a message that are on their way between nodes at once.
constexpr size_t segments_under_way = 4;

void keep_first(int* error, int result) {
  if (*error == MPI_SUCCESS) *error = result;
}

uint64_t bytes_of(MPI_Count count, MPI_Datatype datatype) {
  return static_cast<uint64_t>(packed_bytes(count, datatype));
}

// Memory on the device if there is some left, else of the host: collectives in a node take either.
class Scratch {
 public:
  Scratch() = default;
  Scratch(int device, uint64_t bytes)
      : on_device_(device < 0 ? nullptr : device::pool_allocate(device, bytes)) {
    if (!on_device_) in_host_ = HostBuffer(bytes);
  }
  Scratch(Scratch&& other) noexcept { *this = std::move(other); }
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(on_device_, other.on_device_);
    std::swap(in_host_, other.in_host_);
    return *this;
  }
  ~Scratch() {
    if (on_device_) device::pool_free(on_device_);
  }
  void* data() const { return on_device_ ? on_device_ : in_host_.data(); }

 private:
  void* on_device_ = nullptr;
  HostBuffer in_host_;
};

// A buffer of the call without gaps: itself, or a packed copy in host memory, since ranks with other layouts
// of the same bytes take part.
class Packed {
 public:
  Packed(void* address, MPI_Count count, MPI_Datatype datatype)
      : address_(address), count_(count), datatype_(datatype), layout_(layout_of(count, datatype)) {
    if (!layout_.contiguous) copy_ = HostBuffer(static_cast<size_t>(layout_.bytes));
  }
  char* data() const {
    return layout_.contiguous ? static_cast<char*>(address_) : reinterpret_cast<char*>(copy_.data());
  }
  bool load() {
    if (layout_.contiguous) return true;
    int device = device::device_at(static_cast<char*>(address_) + layout_.first);
    if (device >= 0) return pack_from_device(address_, count_, datatype_, layout_, device, &copy_);
    return pack_host(address_, count_, datatype_, copy_.data(), layout_.bytes);
  }
  bool store() const {
    if (layout_.contiguous) return true;
    int device = device::device_at(static_cast<char*>(address_) + layout_.first);
    if (device >= 0)
      return unpack_to_device(copy_.data(), layout_.bytes, address_, count_, datatype_, layout_, device);
    return unpack_host(copy_.data(), layout_.bytes, address_, count_, datatype_);
  }

 private:
  void* address_;
  MPI_Count count_;
  MPI_Datatype datatype_;
  Layout layout_;
  HostBuffer copy_;
};

// A piece of the message, cut into slices: by place, how many elements, and from which one on.
struct Segment {
  Segment(const Levels& levels, uint64_t from, uint64_t length, uint64_t element)
      : begin(from), bytes(length) {
    constexpr uint64_t grain = 256;
    uint64_t elements = length / element, slices = static_cast<uint64_t>(levels.slices());
    uint64_t slice = (elements / slices / grain + 1) * grain;
    for (uint64_t place = 0; place < levels.neighbors().size(); ++place) {
      uint64_t first = std::min(place * slice, elements);
      offsets.push_back(static_cast<int>(first));
      counts.push_back(place < slices ? static_cast<int>(std::min(slice, elements - first)) : 0);
    }
    size_t place = static_cast<size_t>(levels.my_place());
    my_begin = static_cast<uint64_t>(offsets[place]) * element;
    my_bytes = static_cast<uint64_t>(counts[place]) * element;
  }

  uint64_t begin, bytes;  // in the message
  std::vector<int> counts, offsets;
  uint64_t my_begin, my_bytes;  // this rank's slice, in the segment
  Scratch scratch;
  std::deque<SliceExchange> exchanges;
};

class BetweenNodes {
 public:
  BetweenNodes(const CollectiveCall& call, Levels& levels) : call_(call), levels_(levels) {}

  int run() {
    switch (call_.function) {
      case Collective::bcast:
        return bcast();
      case Collective::allgather:
        return allgather();
      case Collective::reduce:
      case Collective::allreduce:
        return reduce();
      default:
        return MPI_ERR_INTERN;
    }
  }

 private:
  // The members at the root's node have all of it; the others get a slice each, and the rest from each other.
  int bcast() {
    Packed buffer(call_.recvbuf, call_.recvcount, call_.recvtype);
    const bool is_root = levels_.neighbors()[place()] == call_.root;
    if (is_root && !buffer.load()) return MPI_ERR_OTHER;
    uint64_t bytes = bytes_of(call_.recvcount, call_.recvtype);
    const bool has_it = levels_.my_node() == levels_.node_of(call_.root);
    auto begin = [&](Segment& segment) {
      char* data = buffer.data() + segment.begin;
      int error = has_it ? node_bcast(data, static_cast<int>(segment.bytes)) : MPI_SUCCESS;
      char* slice = data + segment.my_begin;
      keep_first(&error, exchange(segment, {.kind = ExchangeKind::bcast,
                                            .from = slice,
                                            .to = slice,
                                            .bytes = segment.my_bytes,
                                            .root_node = levels_.node_of(call_.root)}));
      return error;
    };
    auto end = [&](Segment& segment) {
      if (has_it) return MPI_SUCCESS;
      return node_allgather(MPI_IN_PLACE, 0, buffer.data() + segment.begin, segment.counts, segment.offsets,
                            MPI_BYTE);
    };
    int error = by_segments(bytes, 1, begin, end);
    if (error == MPI_SUCCESS && !is_root && !buffer.store()) error = MPI_ERR_OTHER;
    return error;
  }

  // In each node a slice of the sum for each member; of it the sum over the nodes; and all of that to the
  // root, or to all.
  int reduce() {
    const bool to_all = call_.function == Collective::allreduce;
    const bool at_root_node = !to_all && levels_.my_node() == levels_.node_of(call_.root);
    const char* from = static_cast<const char*>(call_.in_place() ? call_.recvbuf : call_.sendbuf);
    char* result = static_cast<char*>(call_.recvbuf);
    auto begin = [&](Segment& segment) {
      segment.scratch = Scratch(device::device_at(from), segment.my_bytes);
      if (segment.my_bytes && !segment.scratch.data()) return MPI_ERR_NO_MEM;
      int error = node_reduce_scatter(from + segment.begin, segment.scratch.data(), segment.counts);
      Slice slice{.kind = to_all ? ExchangeKind::allreduce : ExchangeKind::reduce,
                  .from = segment.scratch.data(),
                  .to = to_all ? result + segment.begin + segment.my_begin : segment.scratch.data(),
                  .bytes = segment.my_bytes,
                  .root_node = to_all ? 0 : levels_.node_of(call_.root),
                  .datatype = call_.recvtype,
                  .op = call_.op};
      keep_first(&error, exchange(segment, slice));
      return error;
    };
    auto end = [&](Segment& segment) {
      if (to_all)
        return node_allgather(MPI_IN_PLACE, 0, result + segment.begin, segment.counts, segment.offsets,
                              call_.recvtype);
      if (!at_root_node) return MPI_SUCCESS;
      return node_gather(segment.scratch.data(), result ? result + segment.begin : nullptr, segment.counts,
                         segment.offsets);
    };
    return by_segments(bytes_of(call_.sendcount, call_.recvtype), bytes_of(1, call_.recvtype), begin, end);
  }

  // Each sends its block to those at its place in the other nodes, and they tell their neighbours.
  int allgather() {
    int size = 0;
    PMPI_Comm_size(call_.comm, &size);
    Packed result(call_.recvbuf, size * call_.recvcount, call_.recvtype);
    Packed own(const_cast<void*>(call_.sendbuf), call_.in_place() ? 0 : call_.sendcount, call_.sendtype);
    if (!(call_.in_place() ? result.load() : own.load())) return MPI_ERR_OTHER;
    uint64_t block = bytes_of(call_.recvcount, call_.recvtype);
    auto block_of = [&](int node, int place) {
      return static_cast<uint64_t>(levels_.members(node)[static_cast<size_t>(place)]) * block;
    };
    char* mine =
        call_.in_place() ? result.data() + block_of(levels_.my_node(), levels_.my_place()) : own.data();
    auto begin = [&](Segment& segment) {
      int error = MPI_SUCCESS;
      for (int node = 0; node < levels_.nodes(); ++node)
        keep_first(&error, exchange(segment,
                                    {.kind = ExchangeKind::bcast,
                                     .from = mine + segment.begin,
                                     .to = result.data() + block_of(node, levels_.my_place()) + segment.begin,
                                     .bytes = segment.bytes,
                                     .root_node = node}));
      return error;
    };
    auto end = [&](Segment& segment) {
      int error = MPI_SUCCESS, bytes = static_cast<int>(segment.bytes);
      std::vector<int> counts(levels_.neighbors().size(), bytes), offsets;
      for (int node = 0; node < levels_.nodes(); ++node) {
        offsets.clear();
        for (int place = 0; place < static_cast<int>(counts.size()); ++place)
          offsets.push_back(static_cast<int>(block_of(node, place)));
        const bool from_result = call_.in_place() || node != levels_.my_node();
        keep_first(&error, node_allgather(from_result ? MPI_IN_PLACE : mine + segment.begin, bytes,
                                          result.data() + segment.begin, counts, offsets, MPI_BYTE));
      }
      return error;
    };
    int error = by_segments(block, 1, begin, end);
    if (error == MPI_SUCCESS && !result.store()) error = MPI_ERR_OTHER;
    return error;
  }

  // `begin` puts a segment on its way between the nodes, `end` comes when it has arrived. All ranks call them
  // in the same order.
  template <class Begin, class End>
  int by_segments(uint64_t bytes, uint64_t element, Begin begin, End end) {
    uint64_t length =
        std::max<uint64_t>(static_cast<uint64_t>(options().coll_segment) / element, 1) * element;
    int error = MPI_SUCCESS;
    std::deque<Segment> under_way;
    auto finish_first = [&] {
      for (SliceExchange& exchange : under_way.front().exchanges) {
        MPI_Status ignored;
        engine().wait(exchange);
        engine().remove(&exchange);
        keep_first(&error, exchange.finish(&ignored));
      }
      keep_first(&error, end(under_way.front()));
      under_way.pop_front();
    };
    for (uint64_t at = 0; at < bytes && error != MPI_ERR_NO_MEM; at += length) {
      if (under_way.size() == segments_under_way) finish_first();
      Segment& segment = under_way.emplace_back(levels_, at, std::min(length, bytes - at), element);
      keep_first(&error, begin(segment));
    }
    while (!under_way.empty()) finish_first();
    return error;
  }

  int exchange(Segment& segment, const Slice& slice) {
    if (!levels_.has_slice() || slice.bytes == 0) return MPI_SUCCESS;
    SliceExchange& started = segment.exchanges.emplace_back(levels_, slice);
    if (int result = started.start(); result != MPI_SUCCESS) {
      segment.exchanges.pop_back();
      return result;
    }
    engine().add(&started);
    return MPI_SUCCESS;
  }

  // Within the node, on the GPU where that is possible.

  int node_bcast(void* buffer, int bytes) {
    CollectiveCall call{Collective::bcast, levels_.node()};
    call.recvbuf = buffer;
    call.recvcount = bytes;
    call.recvtype = MPI_BYTE;
    call.root = levels_.place_of(call_.root);
    return collective(call, [=](const void*, void* recvbuf) {
      return real.Bcast(recvbuf, bytes, MPI_BYTE, call.root, call.comm);
    });
  }

  int node_reduce_scatter(const void* from, void* to, const std::vector<int>& counts) {
    CollectiveCall call{Collective::reduce_scatter, levels_.node()};
    call.sendbuf = from;
    call.recvbuf = to;
    call.recvcounts = counts.data();
    call.sendtype = call.recvtype = call_.recvtype;
    call.op = call_.op;
    return collective(call, [&](const void* sendbuf, void* recvbuf) {
      return real.Reduce_scatter(sendbuf, recvbuf, counts.data(), call.recvtype, call.op, call.comm);
    });
  }

  int node_allgather(const void* from, int count, void* to, const std::vector<int>& counts,
                     const std::vector<int>& offsets, MPI_Datatype datatype) {
    // MPICH 4.0.2 heeds no displacement in a communicator of one rank.
    if (counts.size() == 1)
      return from == MPI_IN_PLACE ? MPI_SUCCESS : copy(static_cast<char*>(to) + offsets[0], from, count);
    CollectiveCall call{Collective::allgatherv, levels_.node()};
    call.sendbuf = from;
    call.sendcount = count;
    call.recvbuf = to;
    call.recvcounts = counts.data();
    call.rdispls = offsets.data();
    call.sendtype = call.recvtype = datatype;
    return collective(call, [&](const void* sendbuf, void* recvbuf) {
      return real.Allgatherv(sendbuf, count, datatype, recvbuf, counts.data(), offsets.data(), datatype,
                             call.comm);
    });
  }

  int node_gather(const void* from, void* to, const std::vector<int>& counts,
                  const std::vector<int>& offsets) {
    CollectiveCall call{Collective::gatherv, levels_.node()};
    call.sendbuf = from;
    call.sendcount = counts[place()];
    call.recvbuf = to;
    call.recvcounts = counts.data();
    call.rdispls = offsets.data();
    call.sendtype = call.recvtype = call_.recvtype;
    call.root = levels_.place_of(call_.root);
    return collective(call, [&](const void* sendbuf, void* recvbuf) {
      return real.Gatherv(sendbuf, counts[place()], call_.recvtype, recvbuf, counts.data(), offsets.data(),
                          call_.recvtype, call.root, call.comm);
    });
  }

  static int copy(void* to, const void* from, int bytes) {
    int device = std::max(device::device_at(to), device::device_at(from));
    return device::copy_now(device, to, from, static_cast<size_t>(bytes)) == device::Error::none
               ? MPI_SUCCESS
               : MPI_ERR_OTHER;
  }

  size_t place() const { return static_cast<size_t>(levels_.my_place()); }

  const CollectiveCall& call_;
  Levels& levels_;
};

uint64_t message_bytes(const CollectiveCall& call, const Place& place) {
  switch (call.function) {
    case Collective::bcast:
      return bytes_of(call.recvcount, call.recvtype);
    case Collective::allgather:
      return static_cast<uint64_t>(place.size) * bytes_of(call.recvcount, call.recvtype);
    case Collective::reduce:
    case Collective::allreduce:
      return bytes_of(call.sendcount, call.recvtype);
    default:
      return 0;
  }
}

// A list of kinds that are all device memory, such as "cuda:device".
bool names_device_memory_only(const std::string& kinds) {
  for (size_t at = 0; at <= kinds.size();) {
    size_t end = std::min(kinds.find(',', at), kinds.size());
    if (!kinds.substr(at, end - at).ends_with(":device")) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

bool runs_between_nodes(const CollectiveCall& call, MeetingPoint& point) {
  if (!point.has_uniform_kinds() || !point.may_span_nodes() || must_stage(call.function)) return false;
  uint64_t bytes = message_bytes(call, point.place());
  if (bytes == 0 || bytes < static_cast<uint64_t>(options().coll_nodes_from)) return false;
  kernels::ReduceOp op;
  kernels::Element element;
  if (call.op != MPI_OP_NULL && !kernel_for(call.op, call.recvtype, &op, &element)) return false;
  const bool gathers = call.function == Collective::allgather;
  if (gathers && bytes > INT_MAX) return false;
  return point.levels().nodes() > 1 && (!gathers || point.levels().regular());
}

int run_between_nodes(const CollectiveCall& call, MeetingPoint& point) {
  int error = BetweenNodes(call, point.levels()).run();
  if (error == MPI_SUCCESS) count(Traffic::collective_between_nodes, message_bytes(call, point.place()));
  return error;
}

void note_memory_kinds(MPI_Comm comm, MPI_Info info) {
  if (comm == MPI_COMM_NULL) return;
  std::shared_ptr<MeetingPoint> point = meeting_point_of(comm);
  if (!point->may_span_nodes()) return;
  char kinds[MPI_MAX_INFO_VAL] = "";
  int found = 0;
  if (info != MPI_INFO_NULL)
    PMPI_Info_get(info, "mpi_assert_memory_alloc_kinds", sizeof kinds - 1, kinds, &found);
  int uniform = found && names_device_memory_only(kinds);
  Parked parked;
  real.Allreduce(MPI_IN_PLACE, &uniform, 1, MPI_INT, MPI_MIN, comm);
  // Where nothing is said the option holds.
  point->assert_uniform_kinds(uniform || options().coll_uniform);
}

}  // namespace fairlead::mpi
