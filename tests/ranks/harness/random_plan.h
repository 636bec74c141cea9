// SPDX-License-Identifier: Apache-2.0
//
// A random communication program that cannot deadlock on a correct MPI, the same on every rank.
//
// Why it cannot: messages are numbered, and message m is sent at step m. Every rank walks through the steps
// in order. A receive is posted at a step `post`; blocking sends and receives happen at step m = post, and
// everything else is nonblocking until a step `send_wait` or `receive_wait`, which comes no earlier than
// both ends are posted. So at the first step that some rank cannot leave, both ends of what it waits for
// are posted.
//
// Why the match of every receive is known beforehand: a lane says which filters its receives use, and within
// a stream of the lane receives are posted in the order of the sends. Only on the lane `wild` a receive may
// match any message; there the source that the status names tells which one it must be, since messages of
// one source arrive in order. Receives of that lane are posted no earlier than step m, else one could take
// the message that a blocking receive of an earlier step needs.

#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "harness/harness.h"

namespace ranks::plan {

enum class Lane {
  tagged,    // MPI_COMM_WORLD; receives name the tag, which tells the source; a stream: (source, tag)
  reversed,  // ranks in reverse order; otherwise like tagged
  any_tag,   // receives name the source and MPI_ANY_TAG; a stream: (source)
  wild,      // receives name neither
};
inline constexpr int lane_count = 4;

enum class SendKind { send, ssend, bsend, isend, issend, ibsend, persistent, sendrecv, isendrecv };
enum class ReceiveKind {
  recv,
  probe_recv,
  iprobe_recv,
  mprobe_mrecv,
  improbe_imrecv,
  irecv,
  persistent,
  sendrecv,
  isendrecv
};

struct Message {
  int id;
  int source, destination;
  Lane lane;
  int tag;
  size_t bytes;
  size_t capacity;  // of the receive
  Place from, to;
  size_t from_offset, to_offset;
  SendKind send_kind;
  ReceiveKind receive_kind;
  bool name_source;  // on lanes where the tag says enough: MPI_ANY_SOURCE otherwise
  int post;          // step of the receive
  int send_wait;     // step at which a nonblocking send is waited for
  int receive_wait;
  int twin;  // of a Sendrecv or Isendrecv: the message of the other direction, else -1
  uint64_t key;
};

inline bool is_blocking(SendKind kind) {
  return kind == SendKind::send || kind == SendKind::ssend || kind == SendKind::bsend ||
         kind == SendKind::sendrecv;
}
inline bool is_blocking(ReceiveKind kind) {
  return kind != ReceiveKind::improbe_imrecv && kind != ReceiveKind::irecv &&
         kind != ReceiveKind::persistent && kind != ReceiveKind::isendrecv;
}
inline bool is_buffered(SendKind kind) {
  return kind == SendKind::bsend || kind == SendKind::ibsend;
}

struct Program {
  std::vector<Message> messages;
  int steps() const { return static_cast<int>(messages.size()) + 1; }  // the last one waits for all the rest
};

Program make_program(uint64_t seed, int ranks);

// For failure reports: everything about a message in one line.
std::string describe(const Message& message);

}  // namespace ranks::plan
