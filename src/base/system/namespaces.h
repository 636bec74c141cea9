// SPDX-License-Identifier: Apache-2.0
//
// The namespaces that this process is in (namespaces(7)). Numbers are equal for all processes of one
// namespace of this machine.

#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace fairlead {

inline uint32_t number_of_namespace(const char* file) {
  struct stat status;
  return stat(file, &status) == 0 ? static_cast<uint32_t>(status.st_ino) : 0;  // 0: the kernel tells none
}

// PIDs name the processes of one of these.
inline uint32_t pid_namespace() {
  return number_of_namespace("/proc/self/ns/pid");
}

// Processes may inspect others of theirs.
inline uint32_t user_namespace() {
  return number_of_namespace("/proc/self/ns/user");
}

}  // namespace fairlead
