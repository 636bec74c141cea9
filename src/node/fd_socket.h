// SPDX-License-Identifier: Apache-2.0
//
// Passes open files between the ranks of a node. Every rank has a UNIX datagram socket to which others send
// file descriptors. The kernel queues them, so the receiver need not make progress. The queue holds few files
// (net.unix.max_dgram_qlen, 10 on many systems): when it is full, the sender must do without.
//
// No other user can reach the socket (invariant M14). It is bound inside a directory that only this user may
// enter, and both are removed at once: nothing with that name exists afterwards. The rank keeps a descriptor
// of the removed socket file and stores its number in the shared segment. Senders address the file as
// /proc/<pid>/fd/<number>, which the kernel resolves for processes that may inspect the rank's descriptors:
// those of the same user. The receiver checks the origin of a message by the credentials that the kernel
// attaches. Thread-safe.

#pragma once

#include <sys/socket.h>

#include <cstdint>

#include "node/segment.h"

namespace fairlead::node {

// Sent with a file: the memory that the file stands for, in the sender's terms.
struct FileLabel {
  int32_t sender;  // node rank
  uint32_t reserved;
  uint64_t base, id;
};

class FdSocket {
 public:
  // Opens the socket of node rank `mine` of `ranks`, whose `pid` is set, and stores its address in the block
  // of that rank. If the kernel refuses, nobody can send to it.
  FdSocket(RankBlock* ranks, int size, int mine);
  ~FdSocket();
  FdSocket(const FdSocket&) = delete;
  FdSocket& operator=(const FdSocket&) = delete;

  // Sends `file` to `receiver`; the caller keeps it. Never waits.
  bool put(int receiver, const FileLabel& label, int file) const;
  // Receives one file from the rank that the label names; false if there is none. Closes files that did not
  // come from that rank.
  bool take(FileLabel* label, int* file) const;
  // Has a sender found this rank's queue full since the last call?
  bool was_full() const;

 private:
  bool open_socket();
  bool is_from_its_sender(const FileLabel& label, const ucred& credentials) const;

  RankBlock* ranks_;
  int size_, mine_;
  int socket_ = -1, place_ = -1;
  FileIdentity socket_file_{}, place_file_{};
};

}  // namespace fairlead::node
