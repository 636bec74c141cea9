// SPDX-License-Identifier: Apache-2.0
//
// Accesses with device memory at the origin to windows of the host MPI: the host is handed an image in host
// memory, which lives until a call that ends the access, and whose result is copied to the device then.
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
// The host MPI has ended the accesses to a target of this window, or to all (-1). An MPI error code.
int finish_staged(MPI_Win win, int target);

}  // namespace fairlead::mpi
