// SPDX-License-Identifier: Apache-2.0
//
// Which file a descriptor stands for. Programs may close descriptors that are not theirs, and get the same
// numbers for files of their own: what Fairlead keeps open is looked at before each use that could harm them.

#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

namespace fairlead::node {

struct FileIdentity {
  uint64_t device, inode;
  bool operator==(const FileIdentity&) const = default;
};

// No file has the identity of zeros, which stands for none.
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
