// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/collective_work.h"

#include <algorithm>

#include "base/log.h"
#include "base/options.h"
#include "coll/choice.h"
#include "coll/slices.h"
#include "device/classify.h"
#include "kernels/kernel_run.h"
#include "mpi/datatype/layout.h"
#include "mpi/datatype/reduction_types.h"

namespace fairlead::mpi {
namespace {

using coll::Algorithm;
using coll::CollectiveWork;
using coll::Piece;
using coll::Reduction;

// Slices of a reduction are whole cache lines, and large enough to be worth a kernel.
constexpr uint64_t slice_grain = 512;

// Blocks of all ranks for all, which one kernel can move.
constexpr int ranks_of_blocks = 8;
static_assert(ranks_of_blocks * ranks_of_blocks <= static_cast<int>(kernels::max_copies));

bool contiguous(const Region& region) {
  return std::all_of(region.blocks.begin(), region.blocks.end(), [](const CollectiveBlock& block) {
    return layout_of(block.count, block.datatype).contiguous;
  });
}

struct Location {
  int device;     // holds all bytes; -1 if there are none, -2 if some lie elsewhere
  bool ordinary;  // as device::Allocation says, all of them
};

// Uses at_offset() rather than pointer arithmetic, because the address of a layout of absolute addresses is
// null.
Location place_of(const Region& region, bool contiguous) {
  if (contiguous && region.blocks.size() == 1)
    return {region.on_device() ? region.device() : -2, region.found().memory.ordinary};
  Location location{-1, true};
  for (const CollectiveBlock& block : region.blocks) {
    MPI_Aint first = contiguous ? 0 : static_cast<MPI_Aint>(layout_of(block.count, block.datatype).first);
    device::Allocation allocation = device::classify(at_offset(region.address, block.offset + first));
    if (allocation.kind != device::MemoryKind::device ||
        (location.device >= 0 && location.device != allocation.device))
      return {-2, false};
    location.device = allocation.device;
    location.ordinary &= allocation.ordinary;
  }
  return location;
}

// The bytes of a block, for copies or kernels of its device; none if those cannot move the block.
std::optional<packing::View> view_of(const void* buffer, const CollectiveBlock& block) {
  Layout layout = layout_of(block.count, block.datatype);
  void* at = at_offset(buffer, block.offset);
  if (layout.contiguous) return packing::View(at, static_cast<uint64_t>(layout.bytes));
  return kernel_view(at, layout, device::classify(at_offset(at, static_cast<MPI_Aint>(layout.first))));
}

class Planner {
 public:
  Planner(const CollectiveCall& call, const CommPosition& position, Algorithm algorithm, CollectiveWork* work)
      : call_(call),
        shape_(call.shape()),
        sent_(call.sent()),
        received_(call.received()),
        neighbors_(position.neighbors),
        work_(*work),
        me_(position.rank),
        size_(position.size),
        algorithm_(algorithm),
        root_(call.root == position.rank) {}

  bool plan(const Regions& regions) {
    if (shape_.reduces()) return plan_reduction(regions);
    if (shape_.sent == Blocks::none || !expose(regions)) return false;
    if (shape_.gets == Who::others) return root_ || plan_bcast();
    if (shape_.among_neighbors)
      return (call_.gathers_from_neighbors() || export_to_neighbors()) && fetch_from_neighbors();
    const bool gets = is_among(shape_.gets, root_);
    if (is_for_each(shape_.sent) && is_among(shape_.gives, root_))
      export_blocks(call_.in_place() ? received_ : sent_);
    if (shape_.received == Blocks::one)
      return call_.recvbuf == MPI_IN_PLACE || fetch(call_.root, received_.block(0));
    if (gets && !fetch_blocks()) return false;
    if (algorithm_ == Algorithm::allgather_written) write_block_to_all();
    return true;
  }

  // After plan(): the work of all ranks. No buffer of this one has gaps.
  void plan_of_all(const Regions& regions) {
    if (!shape_.nccl) return;
    coll::WorkOfAll all;
    uint64_t bytes_moved = 0;  // between GPUs and inside them
    // Only the root of MPI_Reduce has a receive count.
    const uint64_t unit = reduction_of_all_
                              ? reduction_of_all_->count * kernels::element_bytes(reduction_of_all_->element)
                              : static_cast<uint64_t>(packed_bytes(call_.recvcount, call_.recvtype));
    if (shape_.reduces()) {
      if (!reduction_of_all_) return;
      all.reduction = reduction_of_all_;
      // To this GPU and on.
      bytes_moved = unit * static_cast<uint64_t>(shape_.gets == Who::all ? 2 * (size_ - 1) : size_);
    } else if (!add_transfers(unit, &all)) {
      return;
    }
    const bool exported = work_.target.bytes > 0 && !work_.target.own;
    if (!exported && regions.written.bytes > 0)
      all.result = {.address = regions.written.address,
                    .bytes = bytes_of(regions.written),
                    .found = regions.written.found()};
    for (const coll::WorkOfAll::Transfer& transfer : all.transfers) bytes_moved += transfer.bytes;
    // Only the root of MPI_Reduce may be in place, so its signature does not tell.
    const bool in_place = call_.in_place() && shape_.gets != Who::root;
    all.signature = (unit * 64 + static_cast<uint64_t>(call_.function)) * 2 + in_place;
    if (unit == 0 || bytes_moved > static_cast<uint64_t>(options().coll_by_one)) return;
    work_.of_all = std::move(all);
    work_.source.own = false;  // another rank may read it
  }

 private:
  static uint64_t bytes_of(const Region& region) { return static_cast<uint64_t>(region.bytes); }
  static uint64_t block_offset(int block, uint64_t unit) { return static_cast<uint64_t>(block) * unit; }
  static bool blocks_follow(MPI_Count count, MPI_Datatype datatype) {
    return static_cast<MPI_Count>(extent_of(datatype)) * count == packed_bytes(count, datatype);
  }

  // Every block from where its rank has it to where the other one receives it.
  bool add_transfers(uint64_t unit, coll::WorkOfAll* all) const {
    const bool each_sent = is_for_each(shape_.sent), each_received = is_for_each(shape_.received);
    if (shape_.has_a_block_for_each() && size_ > ranks_of_blocks) return false;
    if ((each_sent && (call_.in_place() || !blocks_follow(call_.sendcount, call_.sendtype))) ||
        (each_received && !blocks_follow(call_.recvcount, call_.recvtype)))
      return false;
    const bool by_root = shape_.gives == Who::root;
    for (int to = 0; to < size_; ++to)
      for (int from = by_root ? call_.root : 0; from < (by_root ? call_.root + 1 : size_); ++from)
        if (is_among(shape_.gets, to == call_.root) && (from != to || !call_.in_place()))
          all->transfers.push_back({from, each_sent ? block_offset(to, unit) : 0, to,
                                    each_received ? block_offset(from, unit) : 0, unit});
    return true;
  }

  bool expose(const Regions& regions) {
    // Nobody fetches what the root of MPI_Gather has in place.
    if (!call_.in_place() || shape_.gets == Who::root) return expose_source(regions.read);
    if (shape_.in_place == InPlace::own) {
      Region own;
      own.address = call_.recvbuf;
      own.add(received_.block(me_));
      return expose_source(own);
    }
    // Others fetch a copy, because each member overwrites its blocks while the others still fetch them.
    const bool exposed = expose_source(regions.written);
    work_.source.by_copy = true;
    return exposed;
  }

  // Exposes all bytes between the first and the last of the region; for blocks with gaps, only the bytes that
  // are transferred.
  bool expose_source(const Region& region) {
    if (region.blocks.empty()) return true;
    if (!contiguous(region)) return expose_packed(region.address, region.blocks);
    first_ = PTRDIFF_MAX;
    MPI_Aint end = 0;
    for (const CollectiveBlock& block : region.blocks) {
      first_ = std::min(first_, block.offset);
      end = std::max<MPI_Aint>(
          end, block.offset + static_cast<MPI_Aint>(packed_bytes(block.count, block.datatype)));
    }
    work_.source = {.address = static_cast<char*>(region.address) + first_,
                    .bytes = static_cast<uint64_t>(end - first_),
                    .found = region.found()};
    return true;
  }

  bool expose_packed(const void* buffer, const std::vector<CollectiveBlock>& blocks) {
    packed_ = true;
    for (const CollectiveBlock& block : blocks) {
      std::optional<packing::View> part = view_of(buffer, block);
      if (!part) return false;
      work_.source.bytes += part->bytes();
      work_.source.parts.push_back(std::move(*part));
    }
    work_.source.address = work_.source.parts[0].address();
    return true;
  }

  // The offset of the next block in the memory that this rank exports. Call it in the order of the blocks.
  uint64_t offset_of(const CollectiveBlock& block) {
    if (!packed_) return static_cast<uint64_t>(block.offset - first_);
    uint64_t position = packed_before_;
    if (block.count > 0) packed_before_ += static_cast<uint64_t>(packed_bytes(block.count, block.datatype));
    return position;
  }

  void export_blocks(const CallSide& side) {
    for (int member = 0; member < size_; ++member) {
      work_.offsets[member] = offset_of(side.block(member));
      work_.first_export[member] = static_cast<uint8_t>(member);
    }
  }

  // False if kernels cannot handle the layout of the block.
  bool fetch(int member, const CollectiveBlock& block, int part = 0) {
    if (block.count <= 0 || packed_bytes(block.count, block.datatype) == 0) return true;
    std::optional<packing::View> to = view_of(call_.recvbuf, block);
    if (!to) return false;
    uint64_t bytes = to->bytes();
    work_.pieces.push_back(Piece{.member = member, .part = part, .to = std::move(*to), .bytes = bytes});
    return true;
  }

  // Fetches one block from each member, beginning with the next member, so that the members do not all fetch
  // from the same one at once.
  bool fetch_blocks() {
    for (int step = 1; step <= size_; ++step) {
      int member = (me_ + step) % size_;
      bool stays = call_.in_place() && member == me_;
      if (!stays && !fetch(member, received_.block(member))) return false;
    }
    return true;
  }

  // In place of fetching them: all blocks of MPI_Allgather are equally long. Without a target this rank makes
  // all fetch.
  void write_block_to_all() {
    const CollectiveBlock all{0, size_ * call_.recvcount, call_.recvtype};
    const auto unit = static_cast<uint64_t>(packed_bytes(call_.recvcount, call_.recvtype));
    const std::optional<packing::View> target = view_of(call_.recvbuf, all);
    if (unit == 0 || !target || !target->contiguous()) return;
    work_.target = {.address = target->address(), .bytes = target->bytes()};
    work_.reduction = Reduction{.op = kernels::ReduceOp::replace,
                                .element = kernels::Element::byte,
                                .count = unit,
                                .sources_begin = me_,
                                .sources_end = me_ + 1,
                                .targets_end = size_,
                                .target_first = block_offset(me_, unit)};
  }

  // Exports to each member the blocks for it, in their order.
  bool export_to_neighbors() {
    const int blocks = static_cast<int>(neighbors_.out.size());
    if (neighbors_.out.size() > coll::max_exports) return false;
    uint64_t offsets[coll::max_exports];
    for (int block = 0; block < blocks; ++block)
      if (neighbors_.out[static_cast<size_t>(block)] != MPI_PROC_NULL)
        offsets[block] = offset_of(sent_.block(block));
    int parts = 0;
    for (int member = 0; member < size_; ++member) {
      work_.first_export[member] = static_cast<uint8_t>(parts);
      for (int block = 0; block < blocks; ++block)
        if (neighbors_.out[static_cast<size_t>(block)] == member) work_.offsets[parts++] = offsets[block];
    }
    return true;
  }

  bool fetch_from_neighbors() {
    for (int block = 0; block < static_cast<int>(neighbors_.in.size()); ++block) {
      const Neighbors::Source& source = neighbors_.in[static_cast<size_t>(block)];
      if (source.rank == MPI_PROC_NULL) continue;
      if (!fetch(source.rank, received_.block(block), call_.gathers_from_neighbors() ? 0 : source.message))
        return false;
    }
    return true;
  }

  bool plan_reduction(const Regions& regions) {
    Reduction part;
    if (!kernel_for(call_.op, call_.recvtype, &part.op, &part.element)) return false;
    if (!kernels::reductions_run_on(work_.device, part.op, part.element)) return false;
    const Region& input = regions.written_is_read ? regions.written : regions.read;
    const uint64_t size = kernels::element_bytes(part.element), all = elements_of(input);
    MPI_Aint begin = input.blocks.empty() ? 0 : input.blocks[0].offset;
    if (!expose_vector(input, begin, all, &work_.source) ||
        !expose_vector(regions.written, 0, elements_of(regions.written), &work_.target))
      return false;
    part.sources_end = part.targets_end = size_;
    if (shape_.reduction != Reduces::all) {
      part.sources_end = me_ + (shape_.reduction == Reduces::up_to_own);
      part.count = part.sources_end ? all : 0;
      to_self(&part);
      // MPI_Exscan has no result on rank 0.
      if (part.count == 0) work_.target = {};
    } else if (is_for_each(shape_.sent)) {
      for (int member = 0; member < me_; ++member) part.first += static_cast<uint64_t>(count_of(member));
      part.count = static_cast<uint64_t>(count_of(me_));
      part.target_first = 0;
      work_.target = {};
      if (!expose_vector(regions.written, 0, part.count, &work_.target)) return false;
      to_self(&part);
    } else {
      const bool to_root = shape_.gets == Who::root;
      if (to_root) {
        part.targets_begin = call_.root;
        part.targets_end = call_.root + 1;
      }
      reduction_of_all_ = part;
      reduction_of_all_->count = all;
      if (algorithm_ == Algorithm::reduce_oneshot) {
        part.count = root_ ? all : 0;
        work_.source.own = work_.target.own = root_;
      } else if (algorithm_ == Algorithm::allreduce_oneshot) {
        part.count = all;
        to_self(&part);
      } else {
        cut(all, size, size_ - to_root, to_root ? number_among_others() : me_, &part);
        // The root reduces no slice: all bytes must go there already.
        if (to_root && root_) part.count = 0;
      }
    }
    if (part.count) work_.reduction = part;
    return true;
  }

  uint64_t elements_of(const Region& region) const {
    return bytes_of(region) / static_cast<uint64_t>(packed_bytes(1, call_.recvtype));
  }

  // The padding of pair types such as MPI_DOUBLE_INT belongs to the program and must not change.
  bool expose_vector(const Region& region, MPI_Aint begin, uint64_t elements, coll::Exposed* vector) const {
    if (elements == 0) return true;
    const CollectiveBlock block{begin, static_cast<MPI_Count>(elements), call_.recvtype};
    const Layout layout = layout_of(block.count, block.datatype);
    *vector = {.address = static_cast<char*>(region.address) + begin,
               .bytes = static_cast<uint64_t>(layout.span),
               .found = region.found()};
    if (layout.contiguous) return true;
    vector->only = view_of(region.address, block);
    return vector->only.has_value();
  }

  MPI_Count count_of(int member) const {
    return call_.recvcounts ? call_.recvcounts[member] : call_.recvcount;
  }

  // In place, the result needs a copy: the other members still read what it would overwrite.
  void to_self(Reduction* part) {
    part->targets_begin = me_;
    part->targets_end = me_ + 1;
    work_.target.by_copy = call_.in_place() && size_ > 1;
    work_.target.own = true;
  }

  // Assigns slice number `mine` of `slices` slices, at the same position in sources and targets.
  static void cut(uint64_t elements, uint64_t size, int slices, int mine, Reduction* part) {
    coll::Slices cuts{elements, static_cast<uint64_t>(slices), std::max<uint64_t>(slice_grain / size, 1)};
    part->first = part->target_first = cuts.begin(static_cast<uint64_t>(mine));
    part->count = cuts.length(static_cast<uint64_t>(mine));
  }

  // This rank's, of all members but the root.
  int number_among_others() const { return me_ - (me_ > call_.root); }

  // In a short MPI_Bcast every member fetches the message from the root. In a long one the root's links would
  // carry every byte to each member; so each member fetches a different slice from the root and writes it to
  // all.
  bool plan_bcast() {
    const CollectiveBlock block{0, call_.recvcount, call_.recvtype};
    uint64_t bytes = static_cast<uint64_t>(packed_bytes(block.count, block.datatype));
    if (algorithm_ == Algorithm::bcast_direct || bytes == 0) return fetch(call_.root, block);
    std::optional<packing::View> target = view_of(call_.recvbuf, block);
    if (!target) return false;
    work_.target = {.address = target->address(), .bytes = bytes};
    if (!target->contiguous()) work_.target.parts.push_back(std::move(*target));
    Reduction part{.op = kernels::ReduceOp::replace,
                   .element = kernels::Element::byte,
                   .sources_begin = call_.root,
                   .sources_end = call_.root + 1,
                   .targets_end = size_,
                   .spared = call_.root};
    cut(bytes, 1, size_ - 1, number_among_others(), &part);
    if (part.count) work_.reduction = part;
    return true;
  }

  const CollectiveCall& call_;
  const CollectiveShape& shape_;
  const CallSide sent_, received_;
  const Neighbors& neighbors_;
  CollectiveWork& work_;
  const int me_, size_;
  const Algorithm algorithm_;
  const bool root_;
  std::optional<Reduction> reduction_of_all_;
  MPI_Aint first_ = 0;  // of the source, relative to the buffer's address
  bool packed_ = false;
  uint64_t packed_before_ = 0;  // bytes of the blocks that offset_of() has placed
};

}  // namespace

uint64_t largest_buffer(const CollectiveCall& call, const Regions& regions, const CommPosition& position) {
  auto bytes = static_cast<uint64_t>(std::max(regions.read.bytes, regions.written.bytes));
  const CollectiveShape& shape = call.shape();
  const bool a_block_of_the_roots =
      shape.is_even() && shape.is_rooted() && shape.has_a_block_for_each() && call.root != position.rank;
  return bytes * static_cast<uint64_t>(a_block_of_the_roots ? position.size : 1);
}

std::optional<Place> place_of(const Regions& regions) {
  Place place{};
  place.read_dense = contiguous(regions.read);
  place.written_dense = contiguous(regions.written);
  const int reads = place_of(regions.read, place.read_dense).device;
  const auto [writes, ordinary] = place_of(regions.written, place.written_dense);
  if (reads == -2 || writes == -2 || (reads >= 0 && writes >= 0 && reads != writes)) return std::nullopt;
  place.device = std::max(reads, writes);
  place.written_is_ordinary = writes >= 0 && ordinary;
  return place;
}

bool work_for(const CollectiveCall& call, const Regions& regions, const CommPosition& position, Ways allowed,
              coll::CollectiveWork* work) {
  if (position.inter || position.size > coll::max_members) return false;
  const std::optional<Place> place = place_of(regions);
  if (!place) return false;
  work->device = place->device;
  const bool dense = place->read_dense && place->written_dense;
  if (allowed.by_nccl && dense) work->nccl = nccl_call_for(call, position, work->device);
  const coll::Family family = call.shape().family;
  const uint64_t bytes = largest_buffer(call, regions, position);
  auto [algorithm, nccl_first] =
      coll::choice().of_call(family, bytes, position.size, call.in_place(), work->nccl.has_value());
  // Of the blocks of MPI_Allgatherv no rank knows the places in the other ranks' buffers.
  if (algorithm == Algorithm::allgather_written && call.shape().has_arrays())
    algorithm = Algorithm::allgather_kernel;
  work->algorithm = algorithm;
  work->largest_buffer = bytes;
  if (!nccl_first) work->nccl.reset();
  if (position.rank == 0 && log_enabled(LogLevel::trace))
    log_line(LogLevel::trace, "collective of %d ranks and %llu bytes: %s:%s%s", position.size,
             static_cast<unsigned long long>(bytes), coll::row_of(family).name.data(),
             coll::row_of(algorithm).name.data(), nccl_first ? ", if NCCL cannot run it" : "");
  if (coll::is_staged(algorithm)) return false;
  work->by_kernel = coll::row_of(algorithm).name != "engine";
  work->receives_in_own_memory = place->written_is_ordinary;
  Planner planner(call, position, algorithm, work);
  if (!planner.plan(regions)) return false;
  if (allowed.single_worker && dense && !work->nccl && position.size > 1 &&
      !coll::choice().is_forced(algorithm))
    planner.plan_of_all(regions);
  return true;
}

}  // namespace fairlead::mpi
