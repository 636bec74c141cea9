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
// attaches. Ranks of several PID namespaces cannot name each other's processes; they open each other's
// sockets by an Introduction in MPI_Init. Thread-safe.

#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node/segment.h"

namespace fairlead::node {

// Sent with a file: the memory that the file stands for, in the sender's terms.
struct FileLabel {
  int32_t sender;  // node rank
  uint32_t reserved;
  uint64_t base, id;
};

class PrivateFolder;

// A rank's socket while its file has a name, which is told to the other ranks. Needs a folder that all of
// them see; the namespaces for users may differ, the user must not.
class Introduction {
 public:
  using Path = std::array<char, 256>;
  static constexpr int folders = 4;  // that may be tried: /dev/shm, XDG_RUNTIME_DIR, TMPDIR, /tmp

  explicit Introduction(int folder);
  ~Introduction();
  Introduction(const Introduction&) = delete;
  Introduction& operator=(const Introduction&) = delete;

  const Path& path() const { return path_; }  // empty if there is no socket
  // Opens the files of all ranks. False if one cannot be opened, or is another user's.
  bool meet(const std::vector<Path>& paths);
  // When all ranks have met, the name goes.
  void end_name();
  bool give(int rank, int file) const;
  int take() const;  // a file that was given, or -1

 private:
  friend class FdSocket;
  std::unique_ptr<PrivateFolder> folder_;
  Path path_{};
  int socket_ = -1, place_ = -1;
  std::vector<int> places_;  // by rank
};

class FdSocket {
 public:
  // Opens the socket of node rank `mine` of `ranks`, whose `pid` is set, and stores its address in the block
  // of that rank. If the kernel refuses, nobody can send to it. After an introduction, takes over its
  // sockets.
  FdSocket(RankBlock* ranks, int size, int mine, Introduction* met = nullptr);
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
  std::vector<int> places_;  // of all ranks, after an introduction
  FileIdentity socket_file_{}, place_file_{};
};

}  // namespace fairlead::node
