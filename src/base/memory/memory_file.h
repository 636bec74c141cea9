// SPDX-License-Identifier: Apache-2.0
//
// Anonymous memory files that processes of one user share (invariant M14). Only the owning user may open
// them, nobody can execute them, and they never shrink, so that no access to a mapping raises SIGBUS.

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>

namespace fairlead {

namespace detail {
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_SEAL;
constexpr unsigned memfd_not_executable = 8;  // MFD_NOEXEC_SEAL, missing in older headers
}  // namespace detail

// Returns a descriptor of a new file of `bytes` zeros; -1 and errno on failure.
inline int make_memory_file(const char* name, size_t bytes) {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // The flag exists since Linux 6.3; vm.memfd_noexec may make it mandatory. Older kernels reject it.
  int file = memfd_create(name, flags | detail::memfd_not_executable);
  if (file < 0) file = memfd_create(name, flags);
  if (file < 0) return -1;
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0 && fchmod(file, S_IRUSR | S_IWUSR) == 0 &&
      fcntl(file, F_ADD_SEALS, detail::size_seals) == 0)
    return file;
  close(file);
  return -1;
}

// Returns whether make_memory_file() created this file, with at least this size, in a process of this user.
// The process ID and the descriptor number through which it was opened may have been reused since they were
// sent.
inline bool is_memory_file(int file, size_t bytes) {
  struct stat status;
  const int seals = fcntl(file, F_GET_SEALS);  // -1 for other kinds of files
  return seals >= 0 && (seals & detail::size_seals) == detail::size_seals && fstat(file, &status) == 0 &&
         status.st_uid == geteuid() && static_cast<size_t>(status.st_size) >= bytes;
}

}  // namespace fairlead
