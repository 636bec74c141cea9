// SPDX-License-Identifier: Apache-2.0
//
// Memory that processes of one node share without names in the file system: an anonymous memfd that its owner
// creates and others open through /proc/<pid>/fd/<fd>, or get by an Introduction (fd_socket.h). They open it
// in MPI_Init only: later a rank may have no file descriptor left, or may no longer be permitted to inspect
// another process (see node_memory.h). Nothing is left behind however a process dies, and the size of
// /dev/shm does not matter. Opening needs the same user; if it fails, the caller falls back to the host MPI.

#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "node/file_identity.h"

namespace fairlead::node {

// Of another process's file, by its number there; -1 if the kernel refuses.
int open_file_of(pid_t pid, int fd);

class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }
  ~SharedMemory();

  // Zero-filled; pages are populated on first access. Invalid (see operator bool) if the kernel refuses.
  static SharedMemory create(size_t bytes);
  // Maps another process's memory, and takes over this descriptor of it; `bytes` must be what its owner
  // passed to create().
  static SharedMemory adopt(int file, size_t bytes);

  explicit operator bool() const { return data_ != nullptr; }
  unsigned char* data() const { return data_; }
  size_t size() const { return size_; }
  int fd() const { return fd_; }  // of this process; others open the creator's

 private:
  explicit SharedMemory(int fd) : fd_(fd), file_(identity_of(fd)) {}
  void swap(SharedMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(fd_, other.fd_);
    std::swap(file_, other.file_);
  }
  unsigned char* data_ = nullptr;
  size_t size_ = 0;
  int fd_ = -1;
  FileIdentity file_{};
};

}  // namespace fairlead::node
