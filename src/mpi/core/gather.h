// SPDX-License-Identifier: Apache-2.0
//
// Before a call that only the host MPI can end. A member of a served window that sits in one answers nobody,
// and others may need its answer before they come to the same call: MPI_Win_unlock of one rank, MPI_Barrier
// of all. So all ranks of the communicator meet first, polled, where all of them know of such a window. Where
// several threads share MPI they need not: a window may come or go in one thread before the others know, and
// the service thread answers for those who sit there.

#pragma once

#include <atomic>

#include "mpi/core/hooks.h"

namespace fairlead::mpi {

namespace detail {
// How many windows of this rank ask for it.
inline std::atomic<int> gathering{0};
}  // namespace detail

inline void gather_before(MPI_Comm comm) {
  if (detail::gathering.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  for (const Hooks& hooks : all_hooks())
    if (hooks.gather) hooks.gather(comm);
}

}  // namespace fairlead::mpi
