// SPDX-License-Identifier: Apache-2.0
//
// What the probe's ranks try, in this order, and how they report it: one line of JSON behind a mark for each
// step and rank, written as soon as it is done to the file that is the first argument.

#pragma once

namespace fairlead::tools::doctor {

inline constexpr char probe_mark[] = "fairlead-probe ";
// As second argument: each rank uses a GPU before MPI_Init.
inline constexpr char use_gpu_first[] = "use-gpu-first";

// The names of steps that fairlead doctor asks for.
inline constexpr char step_loaded[] = "loaded";    // good: Fairlead answers MPI calls in this rank
inline constexpr char step_query[] = "query";      // good: MPI says of itself that it handles device memory
inline constexpr char step_library[] = "library";  // the MPI that was loaded
inline constexpr char step_namespaces[] = "namespaces";  // this rank's, as the kernel numbers them
inline constexpr char step_device[] = "device";          // good: a GPU was taken
inline constexpr char step_real[] = "real";  // good: not a simulated one; else why, "" if it was demanded
inline constexpr char step_host[] = "host to host";
inline constexpr char step_ipc[] = "ipc";  // good: this rank read the other's device memory
// One for each pair of kinds of memory, sender's first; good: the right bytes arrived in this rank.
inline constexpr char step_device_device[] = "device to device";
inline constexpr char step_device_host[] = "device to host";
inline constexpr char step_host_device[] = "host to device";
inline constexpr char step_allreduce[] = "allreduce";  // of device memory

}  // namespace fairlead::tools::doctor
