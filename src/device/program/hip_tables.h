// SPDX-License-Identifier: Apache-2.0
//
// Listens to what the program asks HIP, for work.h. From ROCm 6.2 on each function of HIP calls another one
// through a table, which HIP gives to a library of ROCm, for profilers, before its first call:
// rocprofiler_register_library_api_table(). ROCm's libraries find the function of that name here first, since
// this library is preloaded; it passes the tables on, and then replaces functions by those that call the
// former ones and report. So a profiler listens as well. All of it may run before constructors of this
// library have.

#pragma once

namespace fairlead::device::program {

// Are the program's calls seen?
bool hip_is_seen();

// Called when the program's HIP is known, with a function of it that does nothing, hipGetErrorString(). If
// its calls cannot be seen, one line at level info says why.
void expect_hip_tables(const char* (*function)(int));

}  // namespace fairlead::device::program
