// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/argument_arrays.h"

#include <cstring>

namespace fairlead::mpi {
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

}  // namespace fairlead::mpi
