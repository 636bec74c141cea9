// SPDX-License-Identifier: Apache-2.0

#include "node/file_box.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace fairlead::node {
namespace {

struct Address {
  sockaddr_un name{};
  socklen_t length;

  // In the abstract namespace: nothing to remove, however a process ends.
  Address(const Nonce& nonce, int rank) {
    name.sun_family = AF_UNIX;
    int letters = std::snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "fairlead-%016llx%016llx-%d",
                                static_cast<unsigned long long>(nonce.words[0]),
                                static_cast<unsigned long long>(nonce.words[1]), rank);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + letters);
  }
  const sockaddr* pointer() const { return reinterpret_cast<const sockaddr*>(&name); }
};

// One label in one message, with room for a file and the sender's credentials.
struct Message {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(ucred))] = {};
  iovec bytes;
  msghdr header{};

  explicit Message(FileLabel* label) : bytes{label, sizeof *label} {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
};

}  // namespace

FileBox::FileBox(const Nonce& nonce, int rank)
    : nonce_(nonce), socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (socket_ < 0) return;
  Address address(nonce, rank);
  int yes = 1;
  if (setsockopt(socket_, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0 &&
      bind(socket_, address.pointer(), address.length) == 0)
    return;
  close(socket_);
  socket_ = -1;
}

FileBox::~FileBox() {
  if (socket_ >= 0) close(socket_);
}

bool FileBox::put(int receiver, const FileLabel& label, int file) const {
  if (socket_ < 0) return false;
  Address address(nonce_, receiver);
  FileLabel copy = label;
  Message message(&copy);
  message.header.msg_name = &address.name;
  message.header.msg_namelen = address.length;
  message.header.msg_controllen = CMSG_SPACE(sizeof file);
  cmsghdr* attached = CMSG_FIRSTHDR(&message.header);
  attached->cmsg_level = SOL_SOCKET;
  attached->cmsg_type = SCM_RIGHTS;
  attached->cmsg_len = CMSG_LEN(sizeof file);
  std::memcpy(CMSG_DATA(attached), &file, sizeof file);
  return sendmsg(socket_, &message.header, MSG_NOSIGNAL) == sizeof copy;
}

bool FileBox::take(FileLabel* label, pid_t* sender, int* file) const {
  while (socket_ >= 0) {
    Message message(label);
    ssize_t length = recvmsg(socket_, &message.header, MSG_CMSG_CLOEXEC);
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return false;
    ucred credentials{};
    int received = -1;
    for (cmsghdr* part = CMSG_FIRSTHDR(&message.header); part; part = CMSG_NXTHDR(&message.header, part)) {
      if (part->cmsg_level != SOL_SOCKET) continue;
      if (part->cmsg_type == SCM_RIGHTS) std::memcpy(&received, CMSG_DATA(part), sizeof received);
      if (part->cmsg_type == SCM_CREDENTIALS) std::memcpy(&credentials, CMSG_DATA(part), sizeof credentials);
    }
    if (length == sizeof *label && received >= 0 && credentials.uid == getuid()) {
      *sender = credentials.pid;
      *file = received;
      return true;
    }
    if (received >= 0) close(received);
  }
  return false;
}

}  // namespace fairlead::node
