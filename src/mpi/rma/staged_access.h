// SPDX-License-Identifier: Apache-2.0
//
// Accesses with device memory at the origin to windows of the host MPI. The host MPI gets an image in host
// memory. The image lives until a call that ends the access, and the result is copied to the device then.
// Thread-safe.

#pragma once

#include <atomic>
#include <functional>

#include "mpi/rma/access_call.h"

namespace fairlead::mpi {

// Calls the host MPI's function with the given buffers.
using AccessInHost =
    std::function<int(const void* origin, const void* compare, void* result, MPI_Request* request)>;
// Is any buffer of this process in device memory?
bool brings_device_memory(const AccessCall& call);
int access_staged(const AccessCall& call, const AccessInHost& host);

namespace detail {
extern std::atomic<int> staged_accesses;
}
inline bool any_staged() {
  return detail::staged_accesses.load(std::memory_order_relaxed) != 0;
}
// Call it when the host MPI has ended the accesses to a target of this window, or to all_targets. Returns
// an MPI error code.
int finish_staged(MPI_Win win, int target);

}  // namespace fairlead::mpi
