// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/collective_call.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/datatype/layout.h"

namespace fairlead::mpi {
namespace {

size_t peers_of(const CommPosition& position) {
  return static_cast<size_t>(position.inter ? position.remote_size : position.size);
}

// Builds the regions of one call.
class Describer {
 public:
  Describer(const CollectiveCall& call, const CommPosition& position)
      : call_(call),
        shape_(call.shape()),
        position_(position),
        peers_(shape_.reduces() ? static_cast<size_t>(position.size) : peers_of(position)) {
    regions_.read.address = const_cast<void*>(call.sendbuf);
    regions_.written.address = call.recvbuf;
    regions_.read.set_found(call.found);
    regions_.written.set_found(call.found);
  }

  Regions describe() {
    const bool gives = mpi::gives(call_, position_), gets = mpi::gets(call_, position_);
    if (call_.reduces() && (gives || gets))
      regions_.reduction_error = error_of_reduction(call_.recvcount, call_.recvtype, call_.op);
    regions_.has_result = has_result(call_, position_);
    regions_.written_is_read = gives && call_.in_place();
    if (shape_.reduces() && shape_.has_arrays()) {
      describe_reduce_scatter();
    } else {
      CallSide received = call_.received();
      // In place, the receive buffer holds all of the input.
      if (regions_.written_is_read && shape_.reduces()) received.blocks = shape_.sent;
      const std::vector<Neighbors::Source>& in = position_.neighbors.in;
      const std::vector<int>& out = position_.neighbors.out;
      const bool near = shape_.among_neighbors;
      if (gives && !call_.in_place())
        add(regions_.read, call_.sent(), near ? out.size() : peers_,
            [&](size_t to) { return !near || out[to] != MPI_PROC_NULL; });
      if (gets && (call_.recvbuf != MPI_IN_PLACE || shape_.in_place != InPlace::result))
        add(regions_.written, received, near ? in.size() : peers_,
            [&](size_t from) { return !near || in[from].rank != MPI_PROC_NULL; });
    }
    regions_.aliased = regions_.read.bytes > 0 && regions_.written.bytes > 0 && !position_.inter &&
                       !call_.among_neighbors() && is_received_where_it_is_sent();
    return std::move(regions_);
  }

 private:
  bool is_received_where_it_is_sent() const {
    // Members of reductions receive one part, of what they send to all.
    if (call_.reduces()) return call_.sendbuf == call_.recvbuf;
    // With blocks of their own for each rank, hosts refuse buffers only if all else is the same, too.
    if (has_arrays(shape_.sent) && has_arrays(shape_.received) &&
        (call_.sendbuf != call_.recvbuf || !call_.sendcounts.same_as(call_.recvcounts) ||
         call_.sendtypes != call_.recvtypes))
      return false;
    const CollectiveBlock sent = call_.sent().block(position_.rank),
                          received = call_.received().block(position_.rank);
    return at_offset(call_.sendbuf, sent.offset) == at_offset(call_.recvbuf, received.offset) &&
           sent.count == received.count && sent.datatype == received.datatype &&
           packed_bytes(sent.count, sent.datatype) > 0;
  }

  // The elements for a rank follow those for the one before it.
  void describe_reduce_scatter() {
    MPI_Count all = 0;
    for (int member = 0; member < position_.size; ++member) {
      all += call_.recvcounts[member];
      regions_.written.check(call_.recvcounts[member], call_.recvtype);
    }
    if (!call_.in_place()) regions_.read.add({0, all, call_.recvtype});
    regions_.written.add({0, call_.in_place() ? all : call_.recvcounts[position_.rank], call_.recvtype});
  }

  // Adds the blocks of the peers that are there: at the edge of a grid a neighbour may be missing.
  template <class IsThere>
  void add(Region& region, const CallSide& side, size_t peers, const IsThere& is_there) const {
    if (side.blocks == Blocks::none) return;
    if (side.blocks == Blocks::each && !shape_.among_neighbors)
      return region.add({0, side.count * static_cast<MPI_Count>(peers), side.datatype});
    for (size_t peer = 0; peer < peers; ++peer) {
      if (!is_there(peer)) continue;
      region.add(side.block(static_cast<int>(peer)));
      if (side.blocks == Blocks::one) return;
    }
  }

  const CollectiveCall& call_;
  const CollectiveShape& shape_;
  const CommPosition& position_;
  const size_t peers_;
  Regions regions_;
};

}  // namespace

CollectiveBlock CallSide::block(int number) const {
  const auto index = static_cast<size_t>(number);
  if (blocks == Blocks::one) return {0, count, datatype};
  if (blocks == Blocks::typed) return {displacements[number], counts[number], datatypes[number], index};
  const MPI_Aint extent = datatype == MPI_DATATYPE_NULL ? 0 : extent_of(datatype);
  if (blocks == Blocks::counted) return {displacements[number] * extent, counts[number], datatype, index};
  return {number * static_cast<MPI_Aint>(count) * extent, count, datatype, index};
}

ArrayLengths array_lengths(const CollectiveCall& call, const CommPosition& position) {
  const CollectiveShape& shape = call.shape();
  if (shape.reduces()) return {0, shape.has_arrays() ? static_cast<size_t>(position.size) : 0};
  const auto& [in, out] = position.neighbors;
  const bool near = shape.among_neighbors;
  ArrayLengths lengths{near ? out.size() : peers_of(position), near ? in.size() : peers_of(position)};
  if (!has_arrays(shape.sent) || !gives(call, position) || call.in_place()) lengths.sent = 0;
  if (!has_arrays(shape.received) || !gets(call, position)) lengths.received = 0;
  return lengths;
}

void Region::check(MPI_Count count, MPI_Datatype datatype) {
  if (error == MPI_SUCCESS) error = error_of_elements(count, datatype);
}

void Region::add(const CollectiveBlock& block) {
  const MPI_Count count = block.count;
  const MPI_Datatype datatype = block.datatype;
  check(count, datatype);
  if (error != MPI_SUCCESS) return;
  MPI_Count size = count > 0 ? packed_bytes(count, datatype) : 0;
  if (size == 0) {
    if (datatype != MPI_DATATYPE_NULL && !is_plain(datatype)) types_of_nothing.push_back(datatype);
    return;
  }
  device_ = unknown;
  blocks.push_back(block);
  bytes += size;
}

int Region::device() const {
  if (device_ == unknown) device_ = find_device();
  return device_;
}

int Region::find_device() const {
  for (const CollectiveBlock& block : blocks) {
    const void* at = first_data_byte(address, block.datatype, block.offset);
    if (device::is_device_memory(at, &found_)) return found_.memory.device;
  }
  return -1;
}

// All blocks of a region together: between them there may be gaps.
static void check_region(const Region& region, BufferUse use, device::program::OpenBuffers* buffers) {
  Layout whole;
  for (const CollectiveBlock& block : region.blocks) {
    const Layout layout = layout_of(block.count, block.datatype);
    if (layout.span == 0) continue;
    const MPI_Count first = block.offset + layout.first, end = first + layout.span;
    const MPI_Count end_before = whole.first + whole.span;
    whole.contiguous = layout.contiguous && (whole.span == 0 || (whole.contiguous && first == end_before));
    whole.first = whole.span == 0 ? first : std::min(whole.first, first);
    whole.span = (whole.span == 0 ? end : std::max(end, end_before)) - whole.first;
  }
  check_streams(region.device(), region.address, whole, use, buffers);
}

void check_streams(const Regions& regions, device::program::OpenBuffers* buffers) {
  if (!checks_streams()) return;
  check_region(regions.read, BufferUse::sent, buffers);
  check_region(regions.written, BufferUse::received, buffers);
}

std::vector<MPI_Datatype> types_in(const Regions& regions) {
  std::vector<MPI_Datatype> types;
  for (const Region* region : {&regions.read, &regions.written}) {
    for (const CollectiveBlock& block : region->blocks) types.push_back(block.datatype);
    types.insert(types.end(), region->types_of_nothing.begin(), region->types_of_nothing.end());
  }
  return types;
}

std::string description(const Regions& regions) {
  std::string words = "a collective of " + bytes_in_words(regions.read.bytes + regions.written.bytes) +
                      " on this rank",
              beyond;
  for (const Region* region : {&regions.read, &regions.written})
    for (const CollectiveBlock& block : region->blocks)
      if (beyond.empty())
        beyond = overrun(static_cast<const char*>(region->address) + block.offset,
                         layout_of(block.count, block.datatype));
  return words + beyond;
}

CommPosition position_in(MPI_Comm comm) {
  CommPosition position;
  int inter = 0;
  PMPI_Comm_rank(comm, &position.rank);
  PMPI_Comm_size(comm, &position.size);
  PMPI_Comm_test_inter(comm, &inter);
  position.inter = inter != 0;
  int topology = MPI_UNDEFINED;
  if (!position.inter) PMPI_Topo_test(comm, &topology);
  position.topology = topology != MPI_UNDEFINED;
  if (position.inter)
    PMPI_Comm_remote_size(comm, &position.remote_size);
  else
    position.neighbors = neighbors_of(comm, position.rank);
  return position;
}

Regions regions_of(const CollectiveCall& call, const CommPosition& position) {
  return Describer(call, position).describe();
}

template <class Element>
const Element* KeptArrays::copy(const Element* elements, size_t many) {
  if (many == 0) return elements;
  const size_t bytes = std::span(elements, many).size_bytes();
  copies_.push_back(std::make_unique<std::byte[]>(bytes));
  return static_cast<const Element*>(std::memcpy(copies_.back().get(), elements, bytes));
}

void KeptArrays::keep(CollectiveCall* call, const CommPosition& position) {
  const auto [sent, received] = array_lengths(*call, position);
  auto copy_of = [this](size_t many) {
    return [this, many](const auto* elements) { return copy(elements, many); };
  };
  call->sendcounts.move_to(copy_of(sent));
  call->sdispls.move_to(copy_of(sent));
  call->recvcounts.move_to(copy_of(received));
  call->rdispls.move_to(copy_of(received));
  if (call->sendtypes) call->sendtypes = copy(call->sendtypes, sent);
  if (call->recvtypes) call->recvtypes = copy(call->recvtypes, received);
}

CollectiveCall in_blocks(CollectiveCall call, const CommPosition& position) {
  if (call.function != Collective::reduce_scatter || !call.recvcounts) return call;
  for (int member = 1; member < position.size; ++member)
    if (call.recvcounts[member] != call.recvcounts[0]) return call;
  call.function = Collective::reduce_scatter_block;
  call.sendcount = call.recvcount = call.recvcounts[0];
  call.sendtype = call.recvtype;
  return call;
}

}  // namespace fairlead::mpi
