// SPDX-License-Identifier: Apache-2.0
//
// Listens to what the program asks NVIDIA's driver, for work.h: by the callbacks of CUPTI, which comes with
// the CUDA toolkit and is opened at run time. A process has one listener: under a profiler that uses CUPTI
// there is none for Fairlead.

#pragma once

namespace fairlead::device::program {

// False, and one line at level info that says why, if the program's calls cannot be seen. Others of the
// process may not be told of: call once, before the program uses the GPU if possible.
bool watch_driver();

}  // namespace fairlead::device::program
