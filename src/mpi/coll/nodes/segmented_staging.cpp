// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/nodes/segmented_staging.h"

#include <algorithm>
#include <tuple>

#include "base/log.h"
#include "base/memory/dummy_memory.h"
#include "device/classify.h"
#include "mpi/coll/host_call.h"
#include "mpi/core/argument_check.h"
#include "mpi/core/interception.h"
#include "mpi/datatype/layout.h"

namespace fairlead::mpi {
namespace {

// Bytes that stay together.
uint64_t element_of(const CollectiveCall& call) {
  return call.reduces() ? reduced_element_bytes(call.recvtype) : 1;
}

// In the memory that is cut: with padding in reductions, else without gaps.
uint64_t bytes_of(const CollectiveCall& call, MPI_Count count, MPI_Datatype datatype) {
  return call.reduces() ? static_cast<uint64_t>(count) * element_of(call)
                        : static_cast<uint64_t>(packed_bytes(count, datatype));
}

MPI_Count sum_of_counts(const CollectiveCall& call, const CommPosition& position) {
  MPI_Count sum = 0;
  for (int member = 0; member < position.size; ++member) {
    if (call.recvcounts[member] < 0) return 0;
    sum += call.recvcounts[member];
  }
  return sum;
}

constexpr uint64_t shortest_part = uint64_t{16} << 10;  // of a block in a segment
constexpr uint64_t longest_room = uint64_t{1} << 30;    // its counts and offsets are of type int

// Parts are multiples of this many elements: 256 short ones, a single long one.
uint64_t grain_of(uint64_t element) {
  return std::clamp(4096 / element, uint64_t{1}, uint64_t{256});
}

uint64_t blocks_in(const CollectiveCall& call, const CommPosition& position) {
  return call.shape().has_a_block_for_each() ? static_cast<uint64_t>(position.size) : 1;
}

uint64_t part_of_block(uint64_t blocks, uint64_t segment) {
  return std::max(segment / blocks, std::min(segment, shortest_part));
}

// The bytes of these elements; nothing if they are wrong, or cannot be cut: a segment needs room for an
// element of each block.
std::optional<uint64_t> bytes_to_cut(const CollectiveCall& call, const CommPosition& position,
                                     MPI_Count count, MPI_Datatype datatype) {
  if (count <= 0 || error_of_elements(count, datatype) != MPI_SUCCESS) return std::nullopt;
  const uint64_t bytes = bytes_of(call, count, datatype);
  if (bytes == 0 || element_of(call) > longest_room / static_cast<uint64_t>(position.size))
    return std::nullopt;
  return bytes;
}

}  // namespace

std::optional<uint64_t> SegmentedStaging::length_of(const CollectiveCall& program_call,
                                                    const CommPosition& position) {
  const CollectiveCall call = in_blocks(program_call, position);
  const CollectiveShape& shape = call.shape();
  if (!shape.knows_lengths() || shape.sent == Blocks::none) return std::nullopt;
  if (shape.has_arrays() && !call.recvcounts) return std::nullopt;
  if (shape.has_arrays()) return bytes_to_cut(call, position, sum_of_counts(call, position), call.recvtype);
  // On each rank the arguments of one side are significant; those of the other may be.
  const bool sends = gives(call, position) && !call.in_place(), by_sent = sends || call.reduces();
  const uint64_t blocks = blocks_in(call, position);
  std::optional<uint64_t> bytes = bytes_to_cut(call, position, by_sent ? call.sendcount : call.recvcount,
                                               by_sent ? call.sendtype : call.recvtype);
  if (bytes && *bytes > device::longest_pitch && blocks > 1) return std::nullopt;
  if (bytes) *bytes *= blocks;
  return bytes;
}

bool SegmentedStaging::is_even(const CollectiveCall& call, const CommPosition& position) {
  return in_blocks(call, position).shape().is_even();
}

uint64_t SegmentedStaging::segments_of(const CollectiveCall& call, const CommPosition& position,
                                       uint64_t longest, uint64_t segment) {
  const uint64_t blocks = blocks_in(in_blocks(call, position), position);
  const uint64_t block = (longest + blocks - 1) / blocks;
  const uint64_t part = part_of_block(blocks, segment);
  return std::max({(block + part - 1) / part, (longest + longest_room - 1) / longest_room, uint64_t{1}});
}

SegmentedStaging::SegmentedStaging(const CollectiveCall& call, const CommPosition& position, MPI_Comm comm,
                                   uint64_t segment)
    : call_(in_blocks(call, position)),
      position_(position),
      comm_(comm),
      element_(element_of(call_)),
      segment_(segment) {
  if (call_.shape().is_even())
    describe_even();
  else if (call_.reduces())
    describe_reduce_scatter();
  else
    describe_allgatherv();
}

// Adds blocks of one length that follow each other.
void SegmentedStaging::add_blocks(Side& side, void* address, MPI_Count count, MPI_Datatype datatype,
                                  uint64_t blocks) {
  const PackedBuffer& buffer =
      side.buffers.emplace_back(address, static_cast<MPI_Count>(blocks) * count, datatype, 0, padding());
  const uint64_t bytes = bytes_of(call_, count, datatype);
  for (uint64_t block = 0; block < blocks; ++block)
    side.blocks.push_back({buffer.data() + block * bytes, bytes});
}

void SegmentedStaging::describe_even() {
  const uint64_t each = static_cast<uint64_t>(position_.size);
  const uint64_t reads = gives(call_, position_) ? is_for_each(call_.shape().sent) ? each : 1 : 0;
  const uint64_t writes = gets(call_, position_) && call_.recvbuf != MPI_IN_PLACE
                              ? is_for_each(call_.shape().received) ? each : 1
                              : 0;
  if (reads && !call_.in_place())
    add_blocks(read_, const_cast<void*>(call_.sendbuf), call_.sendcount, call_.sendtype, reads);
  read_.is_read = true;
  if (writes == 0) return;
  written_.is_read = reads && call_.in_place();
  add_blocks(written_, call_.recvbuf, call_.recvcount, call_.recvtype,
             written_.is_read ? std::max(reads, writes) : writes);
  if (!written_.is_read) return;
  // In place: a rank's own block, or all it has, lies where the result goes.
  const auto own = static_cast<size_t>(position_.rank);
  if (writes > reads)
    read_.blocks = {written_.blocks[own]};
  else
    read_.blocks = written_.blocks;
  written_.blocks.resize(writes);
}

// Each rank gets as many elements as the counts say, which all ranks know.
void SegmentedStaging::describe_reduce_scatter() {
  void* from = call_.in_place() ? call_.recvbuf : const_cast<void*>(call_.sendbuf);
  char* address =
      read_.buffers.emplace_back(from, sum_of_counts(call_, position_), call_.recvtype, 0, padding()).data();
  read_.even = false;
  read_.is_read = true;
  for (int member = 0; member < position_.size; ++member) {
    read_.blocks.push_back({address, bytes_of(call_, call_.recvcounts[member], call_.recvtype)});
    address += read_.blocks.back().bytes;
  }
  const uint64_t own = read_.blocks[static_cast<size_t>(position_.rank)].bytes;
  char* result =
      written_.buffers
          .emplace_back(call_.recvbuf, call_.recvcounts[position_.rank], call_.recvtype, 0, padding())
          .data();
  // In place, the result of a segment may overwrite what later segments read.
  if (result == from && own > 0)
    result = static_cast<char*>(apart_.emplace(device::device_at(result), own).data());
  written_.blocks.push_back({result, own});
}

// Each rank receives as many elements from each as the counts say, which all ranks know.
void SegmentedStaging::describe_allgatherv() {
  written_.even = false;
  written_.is_read = call_.in_place();
  const MPI_Aint unit = extent_of(call_.recvtype);
  for (int member = 0; member < position_.size; ++member) {
    const uint64_t bytes = bytes_of(call_, call_.recvcounts[member], call_.recvtype);
    if (bytes == 0) {
      written_.blocks.push_back({});
      continue;
    }
    const PackedBuffer& buffer = written_.buffers.emplace_back(call_.recvbuf, call_.recvcounts[member],
                                                               call_.recvtype, call_.rdispls[member] * unit);
    written_.blocks.push_back({buffer.data(), bytes});
  }
  read_.is_read = true;
  if (call_.in_place())
    read_.blocks = {written_.blocks[static_cast<size_t>(position_.rank)]};
  else if (call_.sendcount > 0)
    add_blocks(read_, const_cast<void*>(call_.sendbuf), call_.sendcount, call_.sendtype, 1);
  else
    read_.blocks.push_back({});
}

bool SegmentedStaging::ready() {
  bool valid = !apart_ || apart_->valid();
  for (Side* side : {&read_, &written_}) {
    for (PackedBuffer& buffer : side->buffers) valid &= buffer.valid() && (!side->is_read || buffer.load());
    for (Block& block : side->blocks) {
      if (block.bytes > 0) block.device = device::device_at(block.address);
      if (side->even) break;
    }
  }
  return valid;
}

// Enough for each segment, however many segments_of() says. Never empty: quirk empty_buffers_overlap.
uint64_t SegmentedStaging::room_of(const Side& side) const {
  uint64_t all = 0;
  for (const Block& block : side.blocks) all += block.bytes;
  const uint64_t blocks = blocks_in(call_, position_);
  const uint64_t rounding = std::max<uint64_t>(blocks, side.blocks.size()) * grain_of(element_) * element_;
  const uint64_t longest = std::min(blocks * part_of_block(blocks, segment_), longest_room) + rounding;
  return std::clamp(all, uint64_t{1}, longest);
}

bool SegmentedStaging::make(SegmentMemory& room) const {
  bool valid = true;
  for (auto [side, half] : {std::pair(&read_, &room.read), std::pair(&written_, &room.written)}) {
    if (side->blocks.empty()) continue;
    half->memory = device::PinnedBuffer(room_of(*side));
    half->data = half->memory.data();
    valid &= half->data != nullptr;
    half->copies.resize(side->even ? 1 : side->blocks.size());
  }
  return valid;
}

bool SegmentedStaging::make_dummy(SegmentMemory& room) {
  fail();
  make(room);
  for (auto [side, half, buffer] : {std::tuple(&read_, &room.read, DummyFor::sent),
                                    std::tuple(&written_, &room.written, DummyFor::received)})
    if (!side->blocks.empty() && !half->data && !(half->data = dummy_memory(buffer, room_of(*side))))
      return false;
  return true;
}

coll::Slices SegmentedStaging::parts_of(uint64_t bytes) const {
  return {bytes / element_, segments_, grain_of(element_)};
}

void SegmentedStaging::lay_out(const Side& side, Half& half, uint64_t segment) const {
  if (side.even) return;
  half.counts.resize(side.blocks.size());
  half.offsets.resize(side.blocks.size());
  uint64_t offset = 0;
  for (size_t i = 0; i < side.blocks.size(); ++i) {
    const uint64_t bytes = parts_of(side.blocks[i].bytes).length(segment) * element_;
    half.counts[i] = static_cast<int>(bytes);
    half.offsets[i] = static_cast<int>(offset);
    offset += bytes;
  }
}

// Starts the copies of a segment's parts of all blocks: out of the buffer that is read, or into the other
// one.
void SegmentedStaging::copy(const Side& side, Half& half, uint64_t segment, bool out) {
  if (side.blocks.empty() || error_ != MPI_SUCCESS) return;
  unsigned char* room = half.data;
  if (!side.even) {
    for (size_t i = 0; i < side.blocks.size(); ++i) {
      const Block& block = side.blocks[i];
      const auto bytes = static_cast<size_t>(half.counts[i]);
      if (bytes == 0) continue;
      void* part = block.address + parts_of(block.bytes).begin(segment) * element_;
      void* there = room + half.offsets[i];
      note_copy(half.copies[i].enqueue(block.device, out ? there : part, out ? part : there, bytes));
    }
    device::start_enqueued();
    return;
  }
  const auto& [address, block, device] = side.blocks[0];
  const uint64_t blocks = side.blocks.size(), bytes = parts_of(block).length(segment) * element_;
  if (bytes == 0) return;
  void* part = address + parts_of(block).begin(segment) * element_;
  device::Copy& one = half.copies[0];
  if (blocks == 1 || bytes == block)
    note_copy(one.start(device, out ? room : part, out ? part : room, blocks * bytes));
  else
    note_copy(out ? one.start_rows(device, room, bytes, part, block, bytes, blocks)
                  : one.start_rows(device, part, block, room, bytes, bytes, blocks));
}

bool SegmentedStaging::copied(Half& half, bool wait) {
  bool all = true;
  for (device::Copy& copy : half.copies) {
    const device::Error state = wait ? copy.wait() : copy.poll();
    if (state == device::Error::not_ready)
      all = false;
    else
      note_copy(state);
  }
  return all;
}

void SegmentedStaging::note_copy(device::Error error) {
  if (error == device::Error::none || error_ != MPI_SUCCESS) return;
  log_line(LogLevel::error, "a part of a collective cannot be moved between device and host memory: %s",
           device::runtime() ? device::runtime()->error_text() : "no device");
  error_ = MPI_ERR_OTHER;
}

void SegmentedStaging::note_host(int result) {
  if (error_ != MPI_SUCCESS || result == MPI_SUCCESS) return;
  error_ = result;
  raised_ = comm_ == call_.comm;
}

void SegmentedStaging::load(SegmentMemory& room, uint64_t segment) {
  lay_out(read_, room.read, segment);
  copy(read_, room.read, segment, true);
}

void SegmentedStaging::store(SegmentMemory& room, uint64_t segment) {
  if (has_result()) copy(written_, room.written, segment, false);
}

void SegmentedStaging::call_host(SegmentMemory& room, uint64_t segment, MPI_Request* request) {
  lay_out(written_, room.written, segment);
  note_host(host(room, segment, request));
}

int SegmentedStaging::end() {
  if (error_ != MPI_SUCCESS || !has_result()) return error_;
  if (apart_)
    note_copy(device::copy_now(device::device_at(call_.recvbuf), call_.recvbuf, apart_->data(),
                               written_.blocks[0].bytes));
  else
    for (const PackedBuffer& buffer : written_.buffers)
      if (!buffer.store()) fail();
  return error_;
}

int SegmentedStaging::run(SegmentMemory (&rooms)[2]) {
  BlockingHostCall blocking_call;
  load(rooms[0], 0);
  for (uint64_t segment = 0; segment < segments_; ++segment) {
    SegmentMemory& room = rooms[segment % 2];
    if (segment + 1 < segments_) load(rooms[(segment + 1) % 2], segment + 1);
    loaded(room, true);
    stored(room, true);  // of the last segment that used this room
    call_host(room, segment, nullptr);
    store(room, segment);
  }
  for (SegmentMemory& room : rooms) stored(room, true);
  return end();
}

int SegmentedStaging::host(SegmentMemory& room, uint64_t segment, MPI_Request* request) const {
  const CollectiveShape& shape = call_.shape();
  const auto length_of_first = [&](const Side& side) {
    return static_cast<MPI_Count>(parts_of(side.blocks[0].bytes).length(segment));
  };
  CollectiveCall part = call_;
  part.large = false;
  part.sendcount = part.recvcount = length_of_first(read_.blocks.empty() ? written_ : read_);
  part.sendtype = part.recvtype = call_.reduces() ? call_.recvtype : MPI_BYTE;
  // The counts of MPI_Reduce_scatter are those that it reads, in elements.
  if (call_.reduces())
    for (int& bytes : room.read.counts) bytes /= static_cast<int>(element_);
  part.recvcounts = (call_.reduces() ? room.read : room.written).counts.data();
  part.rdispls = room.written.offsets.data();
  void* to = room.written.data;
  if (!to && shape.in_place == InPlace::result) to = MPI_IN_PLACE;
  if (!to && shape.gets == Who::others) to = room.read.data;  // the root of MPI_Bcast
  return request ? mpi::call_host(part, comm_, room.read.data, to, request)
                 : mpi::call_host(part, comm_, room.read.data, to);
}

}  // namespace fairlead::mpi
