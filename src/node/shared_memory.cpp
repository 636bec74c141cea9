// SPDX-License-Identifier: Apache-2.0

#include "node/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>

#include "base/memory/memory_file.h"

namespace fairlead::node {
namespace {

unsigned char* map(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  return data == MAP_FAILED ? nullptr : static_cast<unsigned char*>(data);
}

}  // namespace

SharedMemory::~SharedMemory() {
  if (data_) munmap(data_, size_);
  close_own(fd_, file_);
}

SharedMemory SharedMemory::create(size_t bytes) {
  SharedMemory memory(make_memory_file("fairlead", bytes));
  if (memory.fd_ < 0) return memory;
  memory.data_ = map(memory.fd_, bytes);
  memory.size_ = bytes;
  return memory;
}

int open_file_of(pid_t pid, int fd) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  return open(path, O_RDWR | O_CLOEXEC);
}

SharedMemory SharedMemory::adopt(int file, size_t bytes) {
  SharedMemory memory(file);
  if (memory.fd_ >= 0 && is_memory_file(memory.fd_, bytes)) {
    memory.data_ = map(memory.fd_, bytes);
    memory.size_ = bytes;
  }
  return memory;
}

}  // namespace fairlead::node
