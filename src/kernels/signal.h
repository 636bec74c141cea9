// SPDX-License-Identifier: Apache-2.0
//
// How a kernel signals its end, in device code (Signal in reduce.h).

#pragma once

#include <fairlead/kernel.h>

namespace fairlead::kernels {

// Every thread calls this last. The last block that arrives here has seen the fences of all others.
FAIRLEAD_DEVICE_FUNCTION void signal_end(unsigned* counter, unsigned long* flag, unsigned long value) {
  using namespace fairlead::kernel;
  if (!flag) return;
  block_barrier();
  if (!is_last_thread()) return;
  if (grid_size() > 1) {
    system_fence();
    if (atomic_add(counter, 1u) != grid_size() - 1) return;
    *counter = 0;
  }
  system_fence();
  system_store(flag, value);
}

}  // namespace fairlead::kernels
