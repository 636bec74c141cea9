// SPDX-License-Identifier: Apache-2.0
//
// Passes open files between the ranks of a node. Every rank has a box, a UNIX datagram socket without a name
// in the file system, into which others put file descriptors; the kernel keeps them, so the receiver need not
// make progress. A box holds few files (net.unix.max_dgram_qlen, 10 on many systems): whoever puts must do
// without when it is full. Files from other processes than the ranks of the job are dropped. Thread-safe.

#pragma once

#include <sys/types.h>

#include <cstdint>

#include "node/segment.h"

namespace fairlead::node {

// What travels with a file: the memory it stands for, in its sender's words.
struct FileLabel {
  int32_t sender;  // node rank
  uint32_t reserved;
  uint64_t base, id;
};

class FileBox {
 public:
  // Opens the box of node rank `rank`; where the kernel refuses, put() and take() fail.
  FileBox(const Nonce& nonce, int rank);
  ~FileBox();
  FileBox(const FileBox&) = delete;
  FileBox& operator=(const FileBox&) = delete;

  // The file stays the caller's. Never waits.
  bool put(int receiver, const FileLabel& label, int file) const;
  // One file out of this rank's own box, and the process it came from; false when there is none.
  bool take(FileLabel* label, pid_t* sender, int* file) const;

 private:
  Nonce nonce_;
  int socket_;
};

}  // namespace fairlead::node
