// SPDX-License-Identifier: Apache-2.0
//
// How a kernel signals its end to the CPU: host code passes a Signal as a parameter, and device code gives it
// (signal.h).

#pragma once

namespace fairlead::kernels {

// `counter` is device memory of the GPU that runs the kernel, zero before and after; kernels that may run at
// the same time need one each. `flag` is page-locked host memory; if it is null, the kernel signals nothing,
// and `counter` may be null as well.
struct Signal {
  static constexpr unsigned pointers = 2;  // fairlead/kernel.h
  unsigned* counter = nullptr;
  unsigned long* flag = nullptr;
  unsigned long value = 0;
  // All that the kernel writes is memory of the GPU that runs it; then the signal takes less time. Means
  // nothing for a kernel that is part of an exchange (reduce.h).
  bool own_memory = false;
};

}  // namespace fairlead::kernels
