// SPDX-License-Identifier: Apache-2.0
//
// Identifies the file that a descriptor refers to. Programs may close descriptors that they do not own, and
// get the same numbers for files of their own. Therefore Fairlead checks a descriptor that it keeps open
// before each use that could harm another file.

#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

namespace fairlead::node {

struct FileIdentity {
  uint64_t device, inode;
  bool operator==(const FileIdentity&) const = default;
};

// No file has the identity {0, 0}, which means none.
inline FileIdentity identity_of(int file) {
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

inline bool is_still(int file, const FileIdentity& identity) {
  return file >= 0 && identity_of(file) == identity;
}

inline void close_own(int file, const FileIdentity& identity) {
  if (is_still(file, identity)) close(file);
}

}  // namespace fairlead::node
