// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/collective_call.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>

#include "mpi/core/error_handler.h"
#include "mpi/core/interception.h"
#include "mpi/datatype/layout.h"

namespace fairlead::mpi {
namespace {

// Builds the regions of one call. Each method adds what one buffer holds.
class Describer {
 public:
  Describer(const CollectiveCall& call, const CommPosition& position)
      : call_(call),
        position_(position),
        peers_(position.inter ? position.remote_size : position.size),
        rank_(position.rank) {
    root_ = position.inter ? call.root == MPI_ROOT : call.root == position.rank;
    leaf_ = position.inter ? call.root != MPI_ROOT && call.root != MPI_PROC_NULL : true;
    regions_.read.address = const_cast<void*>(call.sendbuf);
    regions_.written.address = call.recvbuf;
    regions_.read.set_found(call.found);
    regions_.written.set_found(call.found);
  }

  Regions describe() {
    if (call_.reduces() && (root_ || leaf_))
      regions_.reduction_error = error_of_reduction(call_.recvcount, call_.recvtype, call_.op);
    switch (call_.function) {
      case Collective::barrier:
        break;
      case Collective::bcast:
        regions_.read.address = call_.recvbuf;
        if (root_)
          regions_.read.add(0, call_.recvcount, call_.recvtype);
        else if (leaf_)
          receive(1);
        break;
      case Collective::gather:
      case Collective::gatherv:
        if (leaf_) send_unless_in_place(1);
        if (root_) call_.recvcounts ? receive_each(peers_) : receive(peers_);
        break;
      case Collective::scatter:
      case Collective::scatterv:
        if (root_) call_.sendcounts ? send_each(peers_) : send(peers_);
        if (leaf_ && call_.recvbuf != MPI_IN_PLACE) receive(1);
        break;
      case Collective::allgather:
      case Collective::allgatherv:
        send_unless_in_place(1);
        call_.recvcounts ? receive_each(peers_) : receive(peers_);
        break;
      case Collective::alltoall:
        send_unless_in_place(peers_);
        receive(peers_);
        break;
      case Collective::alltoallv:
      case Collective::alltoallw:
        if (call_.in_place())
          regions_.written_is_read = true;
        else
          send_each(peers_);
        receive_each(peers_);
        break;
      case Collective::reduce:
        if (leaf_) send_unless_in_place(1);
        if (root_) receive(1);
        break;
      case Collective::allreduce:
      case Collective::scan:
      case Collective::exscan:
        send_unless_in_place(1);
        receive(1);
        regions_.has_result = call_.function != Collective::exscan || rank_ > 0;
        break;
      // The result is scattered within the caller's group, even where the other group has contributed it.
      case Collective::reduce_scatter_block:
        // In place, the receive buffer holds all of the input.
        send_unless_in_place(position_.size);
        receive(call_.in_place() ? position_.size : 1);
        break;
      case Collective::reduce_scatter: {
        MPI_Count all = 0;
        for (int member = 0; member < position_.size; ++member) {
          all += call_.recvcounts[member];
          regions_.written.check(call_.recvcounts[member], call_.recvtype);
        }
        regions_.written_is_read = call_.in_place();
        if (!call_.in_place()) regions_.read.add(0, all, call_.recvtype);
        regions_.written.add(0, call_.in_place() ? all : call_.recvcounts[rank_], call_.recvtype);
        break;
      }
      default:
        describe_neighbors();
    }
    regions_.aliased = regions_.read.bytes > 0 && regions_.written.bytes > 0 && !position_.inter &&
                       !call_.among_neighbors() && is_received_where_it_is_sent();
    return std::move(regions_);
  }

 private:
  bool is_received_where_it_is_sent() const {
    // With blocks of their own for each rank, hosts refuse buffers only if all else is the same, too.
    if (is_one_of({Collective::alltoallv, Collective::alltoallw}) &&
        (call_.sendbuf != call_.recvbuf || !call_.sendcounts.same_as(call_.recvcounts) ||
         call_.sendtypes != call_.recvtypes))
      return false;
    const Part sent = own_sent();
    return sent == own_received() && (call_.reduces() || packed_bytes(sent.count, sent.datatype) > 0);
  }
  // What this rank sends to itself, or receives from itself.
  struct Part {
    const char* address;
    MPI_Count count;
    MPI_Datatype datatype;
    bool operator==(const Part&) const = default;
  };
  Part own_part(const void* buffer, bool block_for_each, MPI_Count count, Numbers<MPI_Count> counts,
                Numbers<MPI_Aint> displacements, MPI_Datatype datatype, const MPI_Datatype* datatypes) const {
    Part part{static_cast<const char*>(buffer), counts ? counts[rank_] : count,
              datatypes ? datatypes[rank_] : datatype};
    if (block_for_each)
      part.address += (counts ? displacements[rank_] : static_cast<MPI_Aint>(rank_ * count)) *
                      (datatypes ? 1 : extent_of(part.datatype));
    return part;
  }
  bool is_one_of(std::initializer_list<Collective> functions) const {
    return std::ranges::find(functions, call_.function) != functions.end();
  }
  bool is_to_each() const {
    return is_one_of({Collective::alltoall, Collective::alltoallv, Collective::alltoallw});
  }
  Part own_sent() const {
    return own_part(call_.sendbuf, is_to_each() || is_one_of({Collective::scatter, Collective::scatterv}),
                    call_.sendcount, call_.sendcounts, call_.sdispls, call_.sendtype, call_.sendtypes);
  }
  Part own_received() const {
    // Members of reductions receive one part, of what they send to all.
    if (call_.reduces())
      return {static_cast<const char*>(call_.recvbuf), own_sent().count, own_sent().datatype};
    return own_part(call_.recvbuf,
                    is_to_each() || is_one_of({Collective::gather, Collective::gatherv, Collective::allgather,
                                               Collective::allgatherv}),
                    call_.recvcount, call_.recvcounts, call_.rdispls, call_.recvtype, call_.recvtypes);
  }

  void describe_neighbors() {
    std::vector<bool> in, out;
    for (const Neighbors::Source& source : position_.neighbors.in) in.push_back(source.rank != MPI_PROC_NULL);
    for (int destination : position_.neighbors.out) out.push_back(destination != MPI_PROC_NULL);
    if (!call_.gathers_from_neighbors())
      add_blocks(regions_.read, out, call_.sendcount, call_.sendcounts, call_.sdispls, call_.sendtype,
                 call_.sendtypes);
    else if (std::find(out.begin(), out.end(), true) != out.end())
      send(1);
    add_blocks(regions_.written, in, call_.recvcount, call_.recvcounts, call_.rdispls, call_.recvtype,
               call_.recvtypes);
  }

  void send(int blocks) { regions_.read.add(0, call_.sendcount * blocks, call_.sendtype); }
  void receive(int blocks) { regions_.written.add(0, call_.recvcount * blocks, call_.recvtype); }
  void send_unless_in_place(int blocks) {
    if (call_.in_place())
      regions_.written_is_read = true;
    else
      send(blocks);
  }

  void send_each(int blocks) {
    add_blocks(regions_.read, all(blocks), 0, call_.sendcounts, call_.sdispls, call_.sendtype,
               call_.sendtypes);
  }
  void receive_each(int blocks) {
    add_blocks(regions_.written, all(blocks), 0, call_.recvcounts, call_.rdispls, call_.recvtype,
               call_.recvtypes);
  }
  static std::vector<bool> all(int blocks) { return std::vector<bool>(static_cast<size_t>(blocks), true); }

  // Adds the blocks that exist. Displacements count extents of the common datatype, or bytes where each block
  // has its own datatype. Without displacements, blocks of one count follow each other.
  static void add_blocks(Region& region, const std::vector<bool>& there, MPI_Count count,
                         Numbers<MPI_Count> counts, Numbers<MPI_Aint> displacements, MPI_Datatype datatype,
                         const MPI_Datatype* datatypes) {
    // A rank without blocks may pass no datatype.
    if (std::find(there.begin(), there.end(), true) == there.end()) return;
    MPI_Aint unit = datatypes || datatype == MPI_DATATYPE_NULL ? 1 : extent_of(datatype);
    for (int block = 0; block < static_cast<int>(there.size()); ++block) {
      const auto index = static_cast<size_t>(block);
      if (!there[index]) continue;
      MPI_Aint offset = counts ? displacements[block] * unit : block * static_cast<MPI_Aint>(count) * unit;
      region.add(offset, counts ? counts[block] : count, datatypes ? datatypes[block] : datatype, index);
    }
  }

  const CollectiveCall& call_;
  const CommPosition& position_;
  int peers_, rank_;
  bool root_, leaf_;
  Regions regions_;
};

}  // namespace

void Region::check(MPI_Count count, MPI_Datatype datatype) {
  if (error == MPI_SUCCESS) error = error_of_elements(count, datatype);
}

void Region::add(MPI_Aint offset, MPI_Count count, MPI_Datatype datatype, size_t index) {
  check(count, datatype);
  if (error != MPI_SUCCESS) return;
  MPI_Count size = count > 0 ? packed_bytes(count, datatype) : 0;
  if (size == 0) {
    if (datatype != MPI_DATATYPE_NULL && !is_plain(datatype)) types_of_nothing.push_back(datatype);
    return;
  }
  device_ = unknown;
  blocks.push_back({offset, count, datatype, index});
  bytes += size;
}

int Region::device() const {
  if (device_ == unknown) device_ = find_device();
  return device_;
}

int Region::find_device() const {
  for (const Block& block : blocks) {
    const void* at = first_data_byte(address, block.datatype, block.offset);
    if (device::is_device_memory(at, &found_)) return found_.memory.device;
  }
  return -1;
}

std::vector<MPI_Datatype> types_in(const Regions& regions) {
  std::vector<MPI_Datatype> types;
  for (const Region* region : {&regions.read, &regions.written}) {
    for (const Block& block : region->blocks) types.push_back(block.datatype);
    types.insert(types.end(), region->types_of_nothing.begin(), region->types_of_nothing.end());
  }
  return types;
}

std::string in_words(const Regions& regions) {
  std::string words = "a collective of " + bytes_in_words(regions.read.bytes + regions.written.bytes) +
                      " on this rank",
              beyond;
  for (const Region* region : {&regions.read, &regions.written})
    for (const Block& block : region->blocks)
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
  const size_t bytes = many * sizeof(Element);
  copies_.push_back(std::make_unique<std::byte[]>(bytes));
  if (bytes > 0) std::memcpy(copies_.back().get(), elements, bytes);
  return reinterpret_cast<const Element*>(copies_.back().get());
}

void KeptArrays::keep(CollectiveCall* call, const CommPosition& position) {
  auto peers = static_cast<size_t>(position.inter ? position.remote_size : position.size);
  size_t sent = peers, received = peers;
  switch (call->function) {
    case Collective::gatherv:
    case Collective::scatterv:
      if (call->root != (position.inter ? MPI_ROOT : position.rank)) return;
      break;
    case Collective::reduce_scatter:
      received = static_cast<size_t>(position.size);
      break;
    default:
      if (!call->among_neighbors()) break;
      sent = position.neighbors.out.size();
      received = position.neighbors.in.size();
  }
  // In place, the send arrays are not significant and may have any value.
  if (call->in_place()) sent = 0;
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
