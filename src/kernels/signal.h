// SPDX-License-Identifier: Apache-2.0
//
// How a kernel signals its end, in device code (Signal in reduce.h).

#pragma once

#include <fairlead/kernel.h>

#include "kernels/parameters.h"

namespace fairlead::kernels {

// Every thread calls this last. True in one thread: it has seen the fences of all other blocks, so that what
// it stores next is visible only after all that the kernel has stored.
FAIRLEAD_DEVICE_FUNCTION bool ends_kernel(unsigned* counter) {
  using namespace fairlead::kernel;
  block_barrier();
  if (!is_last_thread()) return false;
  if (grid_size() > 1) {
    system_fence();
    if (atomic_add(counter, 1u) != grid_size() - 1) return false;
    *counter = 0;
  }
  system_fence();
  return true;
}

FAIRLEAD_DEVICE_FUNCTION void signal_end(unsigned* counter, unsigned long* flag, unsigned long value) {
  if (flag && ends_kernel(counter)) kernel::system_store(flag, value);
}

// Who sees a word that was set sees the cleared ones as well.
FAIRLEAD_DEVICE_FUNCTION void signal_end(unsigned* counter, unsigned long* flag, unsigned long value,
                                         const SignalWords& cleared, const SignalWords& set) {
  if ((!flag && !set.at[0]) || !ends_kernel(counter)) return;
  if (set.at[0]) {
    FAIRLEAD_NO_UNROLL
    for (unsigned i = 0; i < signal_words && cleared.at[i]; ++i)
      kernel::system_store(static_cast<unsigned*>(cleared.at[i]), 0u);
    kernel::system_fence();
    FAIRLEAD_NO_UNROLL
    for (unsigned i = 0; i < signal_words && set.at[i]; ++i)
      kernel::system_store(static_cast<unsigned*>(set.at[i]), 1u);
  }
  if (flag) kernel::system_store(flag, value);
}

}  // namespace fairlead::kernels
