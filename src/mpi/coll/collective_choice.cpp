// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/collective_choice.h"

#include <algorithm>
#include <climits>

#include "base/log.h"
#include "coll/nccl_library.h"
#include "mpi/abi/real.h"
#include "mpi/core/engine.h"

namespace fairlead::mpi {
namespace {

coll::Family family_of(Collective function) {
  switch (function) {
    case Collective::bcast:
      return coll::Family::bcast;
    case Collective::gather:
    case Collective::gatherv:
      return coll::Family::gather;
    case Collective::scatter:
    case Collective::scatterv:
      return coll::Family::scatter;
    case Collective::allgather:
    case Collective::allgatherv:
      return coll::Family::allgather;
    case Collective::reduce:
      return coll::Family::reduce;
    case Collective::allreduce:
      return coll::Family::allreduce;
    case Collective::scan:
    case Collective::exscan:
      return coll::Family::scan;
    case Collective::reduce_scatter_block:
    case Collective::reduce_scatter:
      return coll::Family::reduce_scatter;
    default:
      return coll::Family::alltoall;
  }
}

// The size of the largest buffer that any rank passes. In functions where ranks pass amounts that other ranks
// do not know, each rank sees only its own; of the algorithms of those functions, only `staged` affects the
// other ranks.
uint64_t bytes_of(const CollectiveCall& call, const Regions& regions, const CommPosition& position) {
  auto bytes = static_cast<uint64_t>(std::max(regions.read.bytes, regions.written.bytes));
  bool a_block_of_the_roots = (call.function == Collective::gather || call.function == Collective::scatter) &&
                              call.root != position.rank;
  return bytes * static_cast<uint64_t>(a_block_of_the_roots ? position.size : 1);
}

// Why this rank cannot use NCCL; empty if it can.
std::string reason_against_nccl(const coll::NcclLibrary** library) {
  std::string why_not;
  if (engine().threads())
    return "several threads may call MPI; initialise it with less than MPI_THREAD_MULTIPLE";
  *library = coll::open_nccl(&why_not);
  return why_not;
}

// Either all ranks use NCCL or none does. The first rank that cannot use it logs the reason.
void agree_on_nccl(int world_rank) {
  if (!coll::choice().names_nccl()) return;
  const coll::NcclLibrary* library = nullptr;
  const std::string reason = reason_against_nccl(&library);
  int mine = library ? INT_MAX : world_rank, first = 0;
  real.Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == INT_MAX) return coll::use_nccl(library);
  if (first == world_rank)
    log_line(LogLevel::warn, "no collective is by NCCL: %s; they take other algorithms", reason.c_str());
}

}  // namespace

ChosenAlgorithm algorithm_for(const CollectiveCall& call, const Regions& regions,
                              const CommPosition& position, bool nccl) {
  const coll::Family family = family_of(call.function);
  const uint64_t bytes = bytes_of(call, regions, position);
  ChosenAlgorithm chosen;
  chosen.algorithm = coll::choice().of(family, bytes, position.size, coll::Choice::Among::own);
  // In place, the one-shot algorithm needs an additional copy, because other ranks still read what it would
  // overwrite.
  constexpr coll::Algorithm oneshot = coll::Algorithm::allreduce_oneshot;
  if (chosen.algorithm == oneshot && call.in_place() && !coll::choice().is_forced(oneshot))
    chosen.algorithm = coll::Algorithm::allreduce_sliced;
  chosen.nccl_first = nccl && coll::is_nccl(coll::choice().of(family, bytes, position.size));
  if (position.rank == 0 && log_enabled(LogLevel::trace))
    log_line(LogLevel::trace, "collective of %d ranks and %llu bytes: %s:%s%s", position.size,
             static_cast<unsigned long long>(bytes), coll::row_of(family).name.data(),
             coll::row_of(chosen.algorithm).name.data(),
             chosen.nccl_first ? ", if it cannot be by NCCL" : "");
  return chosen;
}

bool must_stage(Collective function) {
  return coll::choice().must_stage(family_of(function));
}

void agree_on_algorithms(int world_rank) {
  std::vector<std::string> wrong;
  coll::Choice wanted = coll::wanted_choice(&wrong);
  if (world_rank == 0)
    for (const std::string& line : wrong) log_line(LogLevel::warn, "%s", line.c_str());
  uint64_t digest = wanted.digest(), mine[] = {digest, ~digest}, most[2];
  real.Allreduce(mine, most, 2, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  if (most[0] == ~most[1]) {
    coll::set_choice(std::move(wanted));
    agree_on_nccl(world_rank);
  } else if (world_rank == 0) {
    log_line(LogLevel::warn,
             "FAIRLEAD_COLL, or the file of FAIRLEAD_TUNING, is not the same on all ranks; neither is used");
  }
}

}  // namespace fairlead::mpi
