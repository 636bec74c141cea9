// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/segmented_staging.h"

#include <algorithm>

#include "base/log.h"
#include "device/classify.h"
#include "mpi/abi/real.h"
#include "mpi/core/argument_check.h"
#include "mpi/core/interception.h"
#include "mpi/datatype/layout.h"

namespace fairlead::mpi {
namespace {

enum class Who { all, root, others };
// What a buffer holds: one block, or a block for each rank.
enum class Holds { one, each };

// What each function reads and writes. The blocks of one call all have the same length.
struct Shape {
  Collective function;
  Who readers;
  Holds reads;
  Who writers;
  Holds writes;
};
constexpr Shape shapes[] = {
    {Collective::bcast, Who::root, Holds::one, Who::others, Holds::one},
    {Collective::gather, Who::all, Holds::one, Who::root, Holds::each},
    {Collective::scatter, Who::root, Holds::each, Who::all, Holds::one},
    {Collective::allgather, Who::all, Holds::one, Who::all, Holds::each},
    {Collective::alltoall, Who::all, Holds::each, Who::all, Holds::each},
    {Collective::reduce, Who::all, Holds::one, Who::root, Holds::one},
    {Collective::allreduce, Who::all, Holds::one, Who::all, Holds::one},
    {Collective::scan, Who::all, Holds::one, Who::all, Holds::one},
    {Collective::reduce_scatter_block, Who::all, Holds::each, Who::all, Holds::one},
};

const Shape* shape_of(Collective function) {
  auto shape = std::ranges::find(shapes, function, &Shape::function);
  return shape == std::end(shapes) ? nullptr : shape;
}

bool is_among(Who who, bool root) {
  return who == Who::all || (who == Who::root) == root;
}

uint64_t bytes_of(MPI_Count count, MPI_Datatype datatype) {
  return static_cast<uint64_t>(packed_bytes(count, datatype));
}

// Bytes that stay together.
uint64_t element_of(const CollectiveCall& call) {
  return call.reduces() ? bytes_of(1, call.recvtype) : 1;
}

// MPI_Reduce_scatter with equal counts, which all ranks know, is MPI_Reduce_scatter_block.
CollectiveCall in_blocks(CollectiveCall call, const CommPosition& position) {
  if (!call.recvcounts) return call;
  for (int member = 1; member < position.size; ++member)
    if (call.recvcounts[member] != call.recvcounts[0]) return call;
  call.function = Collective::reduce_scatter_block;
  call.sendcount = call.recvcount = call.recvcounts[0];
  call.sendtype = call.recvtype;
  return call;
}

constexpr uint64_t grain = 256;                         // elements
constexpr uint64_t shortest_part = uint64_t{16} << 10;  // of a block in a segment

uint64_t segment_of(uint64_t longest, uint64_t block, uint64_t blocks, uint64_t element) {
  const uint64_t unit = grain * element;
  const uint64_t part = std::max(longest / blocks, std::min(longest, shortest_part));
  return std::min(std::max(part / unit, uint64_t{1}) * unit, block);
}

uint64_t blocks_in(const Shape& shape, const CommPosition& position) {
  return shape.reads == Holds::each || shape.writes == Holds::each ? static_cast<uint64_t>(position.size) : 1;
}

// The bytes of a block, which segments divide.
uint64_t block_bytes(const CollectiveCall& call, const Shape& shape, const CommPosition& position) {
  // On each rank the arguments of one side are significant; those of the other may be.
  const bool sends = is_among(shape.readers, call.root == position.rank) &&
                     call.function != Collective::bcast && !call.in_place();
  const MPI_Count count = sends || call.reduces() ? call.sendcount : call.recvcount;
  const MPI_Datatype datatype = sends || call.reduces() ? call.sendtype : call.recvtype;
  if (count <= 0 || error_of_elements(count, datatype) != MPI_SUCCESS) return 0;
  if (call.reduces() && !layout_of(1, datatype).contiguous) return 0;
  const uint64_t bytes = bytes_of(count, datatype);
  return bytes > device::longest_pitch && blocks_in(shape, position) > 1 ? 0 : bytes;
}

}  // namespace

uint64_t SegmentedStaging::longest_side(const CollectiveCall& call, const CommPosition& position) {
  if (call.function == Collective::reduce_scatter && call.recvcounts)
    if (const CollectiveCall same = in_blocks(call, position); same.function != call.function)
      return longest_side(same, position);
  const Shape* shape = shape_of(call.function);
  return shape ? block_bytes(call, *shape, position) * blocks_in(*shape, position) : 0;
}

SegmentedStaging::SegmentedStaging(const CollectiveCall& program_call, const CommPosition& position,
                                   uint64_t longest)
    : call_(program_call.function == Collective::reduce_scatter ? in_blocks(program_call, position)
                                                                : program_call),
      position_(position),
      element_(element_of(call_)) {
  const CollectiveCall& call = call_;
  const Shape& shape = *shape_of(call.function);
  const bool root = call.root == position.rank;
  const uint64_t each = static_cast<uint64_t>(position.size);
  block_ = block_bytes(call, shape, position);
  segment_ = segment_of(longest, block_, blocks_in(shape, position), element_);

  const bool in_receive_buffer = call.function == Collective::bcast || call.in_place();
  if (is_among(shape.readers, root)) {
    read_.blocks = shape.reads == Holds::each ? each : 1;
    read_.is_read = true;
    if (call.function == Collective::bcast)
      read_.buffer.emplace(call.recvbuf, call.recvcount, call.recvtype);
    else if (!call.in_place())
      read_.buffer.emplace(const_cast<void*>(call.sendbuf),
                           static_cast<MPI_Count>(read_.blocks) * call.sendcount, call.sendtype);
  }
  if (is_among(shape.writers, root) && call.recvbuf != MPI_IN_PLACE) {
    written_.blocks = shape.writes == Holds::each ? each : 1;
    written_.is_read = read_.blocks && in_receive_buffer;
    const uint64_t held = written_.is_read ? std::max(read_.blocks, written_.blocks) : written_.blocks;
    written_.buffer.emplace(call.recvbuf, static_cast<MPI_Count>(held) * call.recvcount, call.recvtype);
  }
}

bool SegmentedStaging::ready() {
  bool valid = true;
  for (Side* side : {&read_, &written_}) {
    if (side->blocks == 0) continue;
    for (std::optional<device::PinnedBuffer>& room : side->rooms)
      valid &= room.emplace(side->blocks * segment_).data() != nullptr;
    if (!side->buffer) continue;
    valid &= side->buffer->valid() && (!side->is_read || side->buffer->load());
    side->address = side->buffer->data();
  }
  if (read_.blocks && !read_.buffer) {
    // In place: a rank's own block, or all it has, lies where the result goes.
    const bool own_of_many = written_.blocks > read_.blocks;
    read_.address = written_.address + (own_of_many ? static_cast<uint64_t>(position_.rank) * block_ : 0);
  }
  for (Side* side : {&read_, &written_})
    if (side->blocks) side->device = device::device_at(side->address);
  return valid;
}

int SegmentedStaging::run() {
  BlockingHostCall blocking_call;
  const uint64_t segments = (block_ + segment_ - 1) / segment_;
  start(read_, 0);
  for (uint64_t segment = 0; segment < segments; ++segment) {
    if (segment + 1 < segments) start(read_, segment + 1);
    finish(read_, segment);
    finish(written_, segment);  // of the last segment that used this room
    const int result = call_host(read_.room(segment), written_.room(segment), bytes_in(segment));
    raised_ |= error_ == MPI_SUCCESS && result != MPI_SUCCESS;
    note(result);
    if (error_ == MPI_SUCCESS) start(written_, segment);
  }
  finish(written_, 0);
  finish(written_, 1);
  if (error_ == MPI_SUCCESS && written_.blocks && !written_.buffer->store()) note(MPI_ERR_OTHER);
  return error_;
}

// Starts the copy of a segment's parts of all blocks: out of the buffer that is read, or into the other one.
void SegmentedStaging::start(Side& side, uint64_t segment) {
  if (side.blocks == 0) return;
  const uint64_t bytes = bytes_in(segment);
  void* part = side.address + begin_of(segment);
  void* room = side.room(segment);
  const bool out = &side == &read_;
  device::Copy& copy = side.copies[segment % 2];
  if (side.blocks == 1 || bytes == block_)
    note_copy(out ? copy.start(side.device, room, part, side.blocks * bytes)
                  : copy.start(side.device, part, room, side.blocks * bytes));
  else
    note_copy(out ? copy.start_rows(side.device, room, bytes, part, block_, bytes, side.blocks)
                  : copy.start_rows(side.device, part, block_, room, bytes, bytes, side.blocks));
}

void SegmentedStaging::finish(Side& side, uint64_t segment) {
  if (side.blocks) note_copy(side.copies[segment % 2].wait());
}

void SegmentedStaging::note_copy(device::Error error) {
  if (error == device::Error::none || error_ != MPI_SUCCESS) return;
  log_line(LogLevel::error, "a part of a collective cannot be moved between device and host memory: %s",
           device::runtime() ? device::runtime()->error_text() : "no device");
  error_ = MPI_ERR_OTHER;
}

// The host MPI has raised its own errors.
int SegmentedStaging::call_host(const void* from, void* to, uint64_t bytes) const {
  const MPI_Comm comm = call_.comm;
  const int root = call_.root;
  const int count = static_cast<int>(bytes / element_);
  const MPI_Datatype type = call_.reduces() ? call_.recvtype : MPI_BYTE;
  switch (call_.function) {
    case Collective::bcast:
      return real.Bcast(from ? const_cast<void*>(from) : to, count, type, root, comm);
    case Collective::gather:
      return real.Gather(from, count, type, to, count, type, root, comm);
    case Collective::scatter:
      return real.Scatter(from, count, type, to ? to : MPI_IN_PLACE, count, type, root, comm);
    case Collective::allgather:
      return real.Allgather(from, count, type, to, count, type, comm);
    case Collective::alltoall:
      return real.Alltoall(from, count, type, to, count, type, comm);
    case Collective::reduce:
      return real.Reduce(from, to, count, type, call_.op, root, comm);
    case Collective::allreduce:
      return real.Allreduce(from, to, count, type, call_.op, comm);
    case Collective::scan:
      return real.Scan(from, to, count, type, call_.op, comm);
    default:
      return real.Reduce_scatter_block(from, to, count, type, call_.op, comm);
  }
}

}  // namespace fairlead::mpi
