// SPDX-License-Identifier: Apache-2.0
//
// Accesses with device memory at the origin to windows of the host MPI. The host MPI gets an image in host
// memory. The image lives until a call that ends the access, and the result is copied to the device then.
// Thread-safe.

#pragma once

#include "mpi/rma/window_access.h"

namespace fairlead::mpi {

namespace detail {
extern std::atomic<int> staged_accesses;
}
inline bool any_staged() {
  return detail::staged_accesses.load(std::memory_order_relaxed) != 0;
}
// Call it when the host MPI has ended the accesses to a target of this window (-1: to all targets). Returns
// an MPI error code.
int finish_staged(MPI_Win win, int target);

}  // namespace fairlead::mpi
