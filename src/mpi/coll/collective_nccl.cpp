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

// `count` is the number of elements of the vector, or of one block.
std::optional<NcclCall> reduction(const CollectiveCall& call, MPI_Count count, int me, int device) {
  ReduceOp kernel;
  Element element;
  if (!kernel_for(call.op, call.recvtype, &kernel, &element)) return std::nullopt;
  auto type = type_of(element);
  auto op = operation_of(kernel);
  if (!type || !op) return std::nullopt;
  NcclCall made{.family = call.shape().family,
                .device = device,
                .from = call.in_place() ? call.recvbuf : call.sendbuf,
                .to = call.recvbuf,
                .count = static_cast<uint64_t>(count),
                .type = *type,
                .op = *op,
                .root = call.root};
  // In place, NCCL leaves each rank's block at its position among all blocks; MPI requires it at the
  // beginning.
  if (made.family == Family::reduce_scatter && call.in_place() && me > 0) {
    uint64_t bytes = made.count * kernels::element_bytes(element);
    made.to = static_cast<char*>(call.recvbuf) + static_cast<uint64_t>(me) * bytes;
    made.afterwards = {call.recvbuf, made.to, bytes};
  }
  return made;
}

}  // namespace

std::optional<NcclCall> nccl_call_for(const CollectiveCall& program_call, const CommPosition& position,
                                      int device) {
  if (!coll::nccl() || !program_call.shape().nccl) return std::nullopt;
  const CollectiveCall call = in_blocks(program_call, position);
  const Shape& shape = call.shape();
  // NCCL's blocks have one length, and it cannot exchange them in place.
  if (shape.has_arrays() || (call.in_place() && !shape.reduces() && shape.sent == Blocks::each))
    return std::nullopt;
  if (shape.reduces()) return reduction(call, call.sendcount, position.rank, device);
  const MPI_Count block = packed_bytes(call.recvcount, call.recvtype);
  return NcclCall{.family = shape.family,
                  .device = device,
                  .from = call.in_place() ? at_offset(call.recvbuf, position.rank * block) : call.sendbuf,
                  .to = call.recvbuf,
                  .count = static_cast<uint64_t>(block),
                  .root = call.root};
}

}  // namespace fairlead::mpi
