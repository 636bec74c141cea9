// SPDX-License-Identifier: Apache-2.0
//
// What the tests of boxes for files share: ranks of a node without MPI, files, children, and datagrams as an
// attacker would send them.

#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "node/fd_socket.h"

namespace fairlead::node {

// The blocks of ranks that are all this process, in memory that children share.
class Ranks {
 public:
  explicit Ranks(int size)
      : size_(size),
        blocks_(static_cast<RankBlock*>(mmap(nullptr, bytes(), PROT_READ | PROT_WRITE,
                                             MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    for (int rank = 0; rank < size; ++rank) blocks_[rank].pid = getpid();
  }
  ~Ranks() { munmap(blocks_, bytes()); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  RankBlock& operator[](int rank) const { return blocks_[rank]; }
  FdSocket open(int rank) const { return FdSocket(blocks_, size_, rank); }

 private:
  size_t bytes() const { return sizeof(RankBlock) * static_cast<size_t>(size_); }
  int size_;
  RankBlock* blocks_;
};

inline std::string path_of(const RankBlock& rank) {
  return "/proc/" + std::to_string(rank.pid) + "/fd/" + std::to_string(rank.box.number_plus_1 - 1);
}

inline int file_with(char content) {
  int file = memfd_create("test", MFD_CLOEXEC);
  EXPECT_EQ(pwrite(file, &content, 1, 0), 1);
  return file;
}

inline char content_of(int file) {
  char content = 0;
  EXPECT_EQ(pread(file, &content, 1, 0), 1);
  return content;
}

// The exit code of a child that runs `body`.
template <class Body>
int in_child(Body body) {
  pid_t child = fork();
  if (child == 0) _exit(body());
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

inline size_t open_descriptors() {
  auto folder = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(folder), end(folder)));
}

// Sends one datagram with `files` copies of `file` to the socket that `address` names (after @: in the
// abstract namespace); false where the kernel refuses.
inline bool send_files(const std::string& address, const void* bytes, size_t length, int file, int files) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  std::memcpy(name.sun_path, address.data(), std::min(address.size(), sizeof name.sun_path - 1));
  if (name.sun_path[0] == '@') name.sun_path[0] = 0;
  std::vector<int> copies(static_cast<size_t>(files), file);
  alignas(cmsghdr) char control[CMSG_SPACE(253 * sizeof(int))] = {};
  iovec content{const_cast<void*>(bytes), length};
  msghdr message{};
  message.msg_name = &name;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  if (files > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(copies.size() * sizeof(int));
    cmsghdr* attached = CMSG_FIRSTHDR(&message);
    attached->cmsg_level = SOL_SOCKET;
    attached->cmsg_type = SCM_RIGHTS;
    attached->cmsg_len = CMSG_LEN(copies.size() * sizeof(int));
    std::memcpy(CMSG_DATA(attached), copies.data(), copies.size() * sizeof(int));
  }
  int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool sent = sendmsg(sender, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(length);
  close(sender);
  return sent;
}

}  // namespace fairlead::node
