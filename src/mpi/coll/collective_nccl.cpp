// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <utility>

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

constexpr std::pair<Element, NcclType> nccl_types[] = {
    {Element::int8, NcclType::int8},       {Element::uint8, NcclType::uint8},
    {Element::int32, NcclType::int32},     {Element::uint32, NcclType::uint32},
    {Element::int64, NcclType::int64},     {Element::uint64, NcclType::uint64},
    {Element::float16, NcclType::float16}, {Element::bfloat16, NcclType::bfloat16},
    {Element::float32, NcclType::float32}, {Element::float64, NcclType::float64},
};
constexpr std::pair<ReduceOp, NcclOp> nccl_operations[] = {
    {ReduceOp::sum, NcclOp::sum},
    {ReduceOp::prod, NcclOp::prod},
    {ReduceOp::min, NcclOp::min},
    {ReduceOp::max, NcclOp::max},
};

std::optional<NcclCall> reduction(const CollectiveCall& call, int me, int device) {
  ReduceOp kernel;
  Element element;
  if (!kernel_for(call.op, call.recvtype, &kernel, &element)) return std::nullopt;
  const auto* type = std::ranges::find(nccl_types, element, &std::pair<Element, NcclType>::first);
  const auto* op = std::ranges::find(nccl_operations, kernel, &std::pair<ReduceOp, NcclOp>::first);
  if (type == std::end(nccl_types) || op == std::end(nccl_operations)) return std::nullopt;
  NcclCall made{.family = call.shape().family,
                .device = device,
                .from = call.in_place() ? call.recvbuf : call.sendbuf,
                .to = call.recvbuf,
                .count = static_cast<uint64_t>(call.sendcount),
                .type = type->second,
                .op = op->second,
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
  const CollectiveShape& shape = call.shape();
  // NCCL's blocks have one length, and it cannot exchange them in place.
  if (shape.has_arrays() || (call.in_place() && !shape.reduces() && shape.sent == Blocks::each))
    return std::nullopt;
  if (shape.reduces()) return reduction(call, position.rank, device);
  const MPI_Count block = packed_bytes(call.recvcount, call.recvtype);
  return NcclCall{.family = shape.family,
                  .device = device,
                  .from = call.in_place() ? at_offset(call.recvbuf, position.rank * block) : call.sendbuf,
                  .to = call.recvbuf,
                  .count = static_cast<uint64_t>(block),
                  .root = call.root};
}

}  // namespace fairlead::mpi
