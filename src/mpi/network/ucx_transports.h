// SPDX-License-Identifier: Apache-2.0
//
// The transports that UCX may use. UCX sees that memory is device memory only by a transport that copies such
// memory; without one it takes device memory for host memory, and crashes.

#pragma once

#include <string>

namespace fairlead::mpi::network {

// UCX's own answer, which follows from its variables and its files: "all", "rc,cuda_copy", "^gdr_copy". "" if
// it has none. `library` is a libucp that this process has loaded; `prefix` is what the MPI puts before UCX's
// variables, or null.
std::string ucx_transports(const char* library, const char* prefix);

// Is a transport among them that copies the memory of this provider ("cuda")?
bool copies_device_memory(const std::string& transports, const std::string& provider);

}  // namespace fairlead::mpi::network
