// SPDX-License-Identifier: Apache-2.0
//
// Anonymous files in memory that processes of one user share (invariant M14): nobody but their owner's user
// may open them, nobody can run them, and they never shrink, so that no access to a mapping fails (SIGBUS).

#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>

namespace fairlead {

namespace detail {
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_SEAL;
constexpr unsigned memfd_not_executable = 8;  // MFD_NOEXEC_SEAL, which older headers lack
}  // namespace detail

// A descriptor of a new file of `bytes` zeros; -1 and errno on failure.
inline int make_memory_file(const char* name, size_t bytes) {
  constexpr unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Since Linux 6.3, which may be told (vm.memfd_noexec) to make no others.
  int file = memfd_create(name, flags | detail::memfd_not_executable);
  if (file < 0) file = memfd_create(name, flags);
  if (file < 0) return -1;
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0 && fchmod(file, S_IRUSR | S_IWUSR) == 0 &&
      fcntl(file, F_ADD_SEALS, detail::size_seals) == 0)
    return file;
  close(file);
  return -1;
}

// Is it a file that make_memory_file() made, of at least this size, in a process of this user? Numbers of processes
// and descriptors by which it was opened may have been used again since they were told.
inline bool is_memory_file(int file, size_t bytes) {
  struct stat status;
  const int seals = fcntl(file, F_GET_SEALS);  // -1 for a file of another kind
  return seals >= 0 && (seals & detail::size_seals) == detail::size_seals && fstat(file, &status) == 0 &&
         status.st_uid == geteuid() && static_cast<size_t>(status.st_size) >= bytes;
}

}  // namespace fairlead
