// SPDX-License-Identifier: Apache-2.0

#include "node/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

namespace fairlead::node {
namespace {

unsigned char* map(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return data == MAP_FAILED ? nullptr : static_cast<unsigned char*>(data);
}

}  // namespace

SharedMemory::~SharedMemory() {
  if (data_) munmap(data_, size_);
  if (fd_ >= 0) close(fd_);
}

SharedMemory SharedMemory::create(size_t bytes) {
  SharedMemory memory;
  int fd = memfd_create("fairlead", MFD_CLOEXEC);
  if (fd < 0) return memory;
  memory.fd_ = fd;
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return memory;
  memory.data_ = map(fd, bytes);
  memory.size_ = bytes;
  return memory;
}

SharedMemory SharedMemory::open(pid_t pid, int fd, size_t bytes) {
  SharedMemory memory;
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  int opened = ::open(path, O_RDWR | O_CLOEXEC);
  if (opened < 0) return memory;
  struct stat info;
  // A smaller file would give SIGBUS later: it is not the memory that was meant.
  if (fstat(opened, &info) == 0 && static_cast<size_t>(info.st_size) == bytes) {
    memory.data_ = map(opened, bytes);
    memory.size_ = bytes;
  }
  close(opened);
  return memory;
}

}  // namespace fairlead::node
