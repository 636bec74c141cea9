// SPDX-License-Identifier: Apache-2.0

#include "base/log.h"
#include "base/mix.h"
#include "coll/choice.h"
#include "coll/nccl_library.h"
#include "mpi/coll/collective_work.h"
#include "mpi/datatype/layout.h"
#include "mpi/datatype/reduction_types.h"

namespace fairlead::mpi {

namespace {

// Bytes of a block, the same in what the rank sends and what it receives; else 0, as the program is wrong.
uint64_t block_bytes(const CollectiveCall& call, const CommPosition& position) {
  const bool sends = gives(call, position) && !call.in_place(),
             receives = gets(call, position) && call.recvbuf != MPI_IN_PLACE && !call.reduces();
  const MPI_Count sent = packed_bytes(call.sendcount, call.sendtype),
                  received = packed_bytes(call.recvcount, call.recvtype);
  if (sends && receives && sent != received) return 0;
  return static_cast<uint64_t>(sends ? sent : received);
}

}  // namespace

EvenBuffer input_of(const CollectiveCall& call, const CommPosition& position, uint64_t unit) {
  const int blocks = is_for_each(call.shape().sent) ? position.size : 1;
  const uint64_t bytes = unit * static_cast<uint64_t>(blocks);
  if (!call.in_place())
    return {const_cast<void*>(call.sendbuf), call.sendcount * blocks, call.sendtype, bytes};
  const MPI_Aint own =
      call.shape().in_place == InPlace::own ? call.received().block(position.rank).offset : 0;
  return {at_offset(call.recvbuf, own), call.recvcount * blocks, call.recvtype, bytes};
}

EvenBuffer result_of(const CollectiveCall& call, const CommPosition& position, uint64_t unit) {
  const int blocks = is_for_each(call.shape().received) ? position.size : 1;
  return {call.recvbuf, call.recvcount * blocks, call.recvtype, unit * static_cast<uint64_t>(blocks)};
}

void set_blocks(const CollectiveShape& shape, int root, int ranks, uint64_t unit, kernels::Meet* meet) {
  meet->block_bytes = unit;
  meet->input_step = is_for_each(shape.sent) ? unit : 0;
  meet->result_step = is_for_each(shape.received) ? unit : 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool is_root = rank == root;
    meet->gives_to |= uint32_t{is_among(shape.gets, is_root)} << rank;
    meet->takes_from |= uint32_t{is_among(shape.gives, is_root)} << rank;
  }
  meet->reduces = shape.reduces();
}

std::optional<coll::MeetCall> meet_call_for(const CollectiveCall& program_call, const Regions& regions,
                                            const CommPosition& position) {
  if (position.inter || position.size < 2 || position.size > coll::max_members) return std::nullopt;
  const coll::Algorithm chosen =
      coll::choice().of(program_call.shape().family, largest_buffer(program_call, regions, position),
                        position.size, {.nccl = coll::nccl() != nullptr, .meet = true});
  if (!coll::is_meeting(chosen)) return std::nullopt;
  const std::optional<Place> place = place_of(regions);
  if (!place || place->device < 0 || !place->read_dense || !place->written_dense) return std::nullopt;
  const CollectiveCall call = in_blocks(program_call, position);
  const CollectiveShape& shape = call.shape();
  if (!shape.is_even() || (shape.reduces() && shape.reduction != Reduces::all)) return std::nullopt;
  const uint64_t unit = block_bytes(call, position);
  if (unit == 0 || unit > kernels::meet_block_bytes(kernels::meet_slot_bytes(position.size)))
    return std::nullopt;
  coll::MeetCall made;
  made.device = place->device;
  made.result_in_own_memory = place->written_is_ordinary;
  kernels::Meet& meet = made.meet;
  set_blocks(shape, call.root, position.size, unit, &meet);
  if (shape.reduces() && (!kernel_for(call.op, call.recvtype, &meet.op, &meet.element) ||
                          !kernels::meets(meet.op, meet.element)))
    return std::nullopt;
  if (gives(call, position)) meet.input = input_of(call, position, unit).address;
  // The root of MPI_Scatter may leave its block where it is.
  if (gets(call, position) && call.recvbuf != MPI_IN_PLACE)
    meet.result = result_of(call, position, unit).address;
  made.signature = mixed(mixed(static_cast<uint64_t>(call.function), static_cast<uint64_t>(call.root)), unit);
  if (shape.reduces())
    made.signature =
        mixed(made.signature, mixed(static_cast<uint64_t>(meet.op), static_cast<uint64_t>(meet.element)));
  if (position.rank == 0 && log_enabled(LogLevel::trace))
    log_line(LogLevel::trace, "collective of %d ranks and blocks of %llu bytes: %s:meet, if all can",
             position.size, static_cast<unsigned long long>(unit), coll::row_of(shape.family).name.data());
  return made;
}

}  // namespace fairlead::mpi
