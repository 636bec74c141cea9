// SPDX-License-Identifier: Apache-2.0

#include "coll/nccl_library.h"
#include "mpi/coll/collective_work.h"
#include "mpi/datatype/layout.h"
#include "mpi/datatype/reduction_types.h"

namespace fairlead::mpi {
namespace {

using coll::Family;
using coll::NcclCall;
using coll::NcclOp;
using coll::NcclType;
using kernels::Element;
using kernels::ReduceOp;

std::optional<NcclType> type_of(Element element) {
  switch (element) {
    case Element::int8:
      return NcclType::int8;
    case Element::uint8:
      return NcclType::uint8;
    case Element::int32:
      return NcclType::int32;
    case Element::uint32:
      return NcclType::uint32;
    case Element::int64:
      return NcclType::int64;
    case Element::uint64:
      return NcclType::uint64;
    case Element::float16:
      return NcclType::float16;
    case Element::bfloat16:
      return NcclType::bfloat16;
    case Element::float32:
      return NcclType::float32;
    case Element::float64:
      return NcclType::float64;
    default:
      return std::nullopt;
  }
}

std::optional<NcclOp> operation_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return NcclOp::sum;
    case ReduceOp::prod:
      return NcclOp::prod;
    case ReduceOp::min:
      return NcclOp::min;
    case ReduceOp::max:
      return NcclOp::max;
    default:
      return std::nullopt;
  }
}

bool equal_counts(const CollectiveCall& call, int members) {
  for (int member = 1; member < members; ++member)
    if (call.recvcounts[member] != call.recvcounts[0]) return false;
  return true;
}

// `count` is the number of elements of the vector, or of one block.
std::optional<NcclCall> reduction(const CollectiveCall& call, Family family, MPI_Count count, int me,
                                  int device) {
  ReduceOp kernel;
  Element element;
  if (!kernel_for(call.op, call.recvtype, &kernel, &element)) return std::nullopt;
  auto type = type_of(element);
  auto op = operation_of(kernel);
  if (!type || !op) return std::nullopt;
  NcclCall made{.family = family,
                .device = device,
                .from = call.in_place() ? call.recvbuf : call.sendbuf,
                .to = call.recvbuf,
                .count = static_cast<uint64_t>(count),
                .type = *type,
                .op = *op,
                .root = call.root};
  // In place, NCCL leaves each rank's block at its position among all blocks; MPI requires it at the
  // beginning.
  if (family == Family::reduce_scatter && call.in_place() && me > 0) {
    uint64_t bytes = made.count * kernels::element_bytes(element);
    made.to = static_cast<char*>(call.recvbuf) + static_cast<uint64_t>(me) * bytes;
    made.afterwards = {call.recvbuf, made.to, bytes};
  }
  return made;
}

}  // namespace

std::optional<NcclCall> nccl_call_for(const CollectiveCall& call, const Regions& regions,
                                      const CommPosition& position, int device) {
  if (!coll::nccl()) return std::nullopt;
  auto movement = [&](Family family, const void* from, MPI_Count bytes) {
    return NcclCall{.family = family,
                    .device = device,
                    .from = from,
                    .to = call.recvbuf,
                    .count = static_cast<uint64_t>(bytes),
                    .root = call.root};
  };
  switch (call.function) {
    case Collective::bcast:
      return movement(Family::bcast, call.recvbuf, regions.read.bytes + regions.written.bytes);
    case Collective::allgather: {
      MPI_Count block = packed_bytes(call.recvcount, call.recvtype);
      const char* own = static_cast<const char*>(call.recvbuf) + position.rank * block;
      return movement(Family::allgather, call.in_place() ? own : call.sendbuf, block);
    }
    case Collective::alltoall:
      // NCCL cannot exchange blocks in place.
      if (call.in_place()) return std::nullopt;
      return movement(Family::alltoall, call.sendbuf, packed_bytes(call.recvcount, call.recvtype));
    case Collective::allreduce:
    case Collective::reduce:
      return reduction(call, call.function == Collective::reduce ? Family::reduce : Family::allreduce,
                       call.sendcount, position.rank, device);
    case Collective::reduce_scatter_block:
      return reduction(call, Family::reduce_scatter, call.recvcount, position.rank, device);
    case Collective::reduce_scatter:
      if (!equal_counts(call, position.size)) return std::nullopt;
      return reduction(call, Family::reduce_scatter, call.recvcounts[0], position.rank, device);
    default:
      return std::nullopt;
  }
}

}  // namespace fairlead::mpi
