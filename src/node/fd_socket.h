// SPDX-License-Identifier: Apache-2.0
//
// Passes open files between the ranks of a node. Every rank has a box, a UNIX datagram socket, into which
// others put file descriptors; the kernel keeps them, so the receiver need not make progress. A box holds few
// files (net.unix.max_dgram_qlen, 10 on many systems): whoever puts must do without when it is full.
//
// No other user can reach a box (invariant M14). The socket is bound inside a folder that only this user may
// enter, and both are removed at once: nothing with that name exists afterwards. Its rank keeps a descriptor
// of the removed socket file and tells its number in the shared segment; senders address it as
// /proc/<pid>/fd/<number>, which the kernel resolves for processes that may look into the rank's descriptors:
// those of the same user. Where a message comes from is checked by the credentials that the kernel attaches.
// Thread-safe.

#pragma once

#include <sys/socket.h>

#include <cstdint>

#include "node/segment.h"

namespace fairlead::node {

// What travels with a file: the memory it stands for, in its sender's words.
struct FileLabel {
  int32_t sender;  // node rank
  uint32_t reserved;
  uint64_t base, id;
};

class FdSocket {
 public:
  // Opens the box of node rank `mine` of `ranks`, whose `pid` is set, and tells the others where it is. Where
  // the kernel refuses, nobody can put anything into it.
  FdSocket(RankBlock* ranks, int size, int mine);
  ~FdSocket();
  FdSocket(const FdSocket&) = delete;
  FdSocket& operator=(const FdSocket&) = delete;

  // The file stays the caller's. Never waits.
  bool put(int receiver, const FileLabel& label, int file) const;
  // One file out of this rank's own box, from the rank that the label names; false when there is none. What
  // did not come from that rank is closed.
  bool take(FileLabel* label, int* file) const;
  // Has a sender found this rank's box full since the last call?
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
