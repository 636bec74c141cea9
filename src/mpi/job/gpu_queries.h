// SPDX-License-Identifier: Apache-2.0
//
// Whose device memory Fairlead handles, which the functions of gpu_queries.cpp tell programs that ask.

#pragma once

#include <array>

namespace fairlead::mpi {

// 1 or 0: memory of CUDA, of ROCm. Simulated GPUs are neither.
using HandledMemory = std::array<int, 2>;

// Of this process, by its options and its provider. Starts no device.
HandledMemory handled_here();

// What any rank of the job handles: programs may ask one rank and decide for all. Set while the job is open.
void set_handled_in_job(const HandledMemory& handled);

}  // namespace fairlead::mpi
