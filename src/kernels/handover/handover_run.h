// SPDX-License-Identifier: Apache-2.0
//
// The kernel of handover.h as a KernelRun, where the CPU starts it.

#pragma once

#include "kernels/handover/handover.h"
#include "kernels/kernel_run.h"

namespace fairlead::kernels {

inline bool handovers_run_on(int device) {
  return device >= 0 && handover_available(device) && kernels_run_on(device);
}

// As the members of KernelRun.
inline Attempt hand_over(KernelRun& run, int device, const HandOver& call) {
  return run.launch(device, [&](device::Stream stream, const Signal& signal) {
    return launch_handover(device, stream, call, signal);
  });
}

}  // namespace fairlead::kernels
