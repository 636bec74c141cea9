// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/accumulate_op.h"

#include <algorithm>
#include <vector>

#include "mpi/abi/real.h"
#include "mpi/core/argument_check.h"
#include "mpi/datatype/layout.h"
#include "mpi/datatype/reduction_types.h"
#include "mpi/datatype/type_origin.h"

namespace fairlead::mpi {

using rma::Combination;

namespace {

// The first component type that contributes bytes. Only structures have several component types, and some of
// those may contribute none.
MPI_Datatype part_of(const TypeContents& made) {
  const std::vector<MPI_Datatype>& types = made.types();
  for (size_t part = 0; types.size() > 1 && part < types.size(); ++part)
    if (made.number(1 + part) > 0 && packed_bytes(1, types[part]) > 0) return types[part];
  return types.front();
}

}  // namespace

MPI_Datatype element_of(MPI_Datatype datatype) {
  if (is_plain(datatype)) return datatype;
  TypeContents made(datatype);
  return made.combiner() == MPI_COMBINER_NAMED || made.types().empty() ? datatype : element_of(part_of(made));
}

bool combination_of(MPI_Op op, MPI_Datatype element, Combination* combination) {
  combination->element_bytes = static_cast<uint64_t>(packed_bytes(1, element));
  combination->extent = static_cast<uint64_t>(extent_of(element));
  if (combination->element_bytes == 0) return false;
  if (combination->extent != combination->element_bytes) combination->element = plan_of(element);
  combination->kind = op == MPI_REPLACE ? Combination::Kind::replace
                      : op == MPI_NO_OP ? Combination::Kind::none
                                        : Combination::Kind::combine;
  if (combination->kind != Combination::Kind::combine) return true;
  if (!is_allowed(op, element)) return false;
  combination->has_kernel = kernel_for(op, element, &combination->kernel_op, &combination->kernel_element);
  combination->on_host = [op, element](const void* from, void* into, uint64_t count) {
    constexpr uint64_t at_once = 1 << 24;
    const auto extent = static_cast<uint64_t>(extent_of(element));
    for (uint64_t at = 0; at < count; at += at_once) {
      const int some = static_cast<int>(std::min(at_once, count - at));
      if (real.Reduce_local(static_cast<const char*>(from) + at * extent,
                            static_cast<char*>(into) + at * extent, some, element, op) != MPI_SUCCESS)
        return false;
    }
    return true;
  };
  return true;
}

}  // namespace fairlead::mpi
