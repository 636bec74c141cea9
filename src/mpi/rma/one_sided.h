// SPDX-License-Identifier: Apache-2.0
//
// What the generated access functions (generated/one_sided.cpp) do with a call: an access to a window of
// Fairlead's, an access with device memory to a window of the host MPI, or the call of the host MPI
// unchanged.

#pragma once

#include "mpi/core/interception.h"
#include "mpi/rma/access_call.h"
#include "mpi/rma/staged_access.h"
#include "mpi/rma/window.h"

namespace fairlead::mpi {

namespace detail {
int access_window(const AccessCall& call, const std::shared_ptr<Window>& window);
}

// `host` calls the host MPI's function with the given buffers.
template <class Host>
int one_sided(const AccessCall& call, const Host& host) {
  if (std::shared_ptr<Window> window = find_window(call.win)) return detail::access_window(call, window);
  if (brings_device_memory(call)) return access_staged(call, host);
  BlockingHostCall blocking_call;
  return host(call.origin_addr, call.compare_addr, call.result_addr, call.request);
}

}  // namespace fairlead::mpi
