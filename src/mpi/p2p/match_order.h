// SPDX-License-Identifier: Apache-2.0
//
// Which receive a message will match, known by its sender before the host MPI matches them. Messages from one
// rank to another, with one communicator and tag, match the receives that name this source and tag in the
// order of the calls (MPI 5.0, 3.5), so the n-th matches the n-th. Each side counts its own device messages
// or receives into device memory, and gives the same key to the n-th.
//
// That holds only if nothing else takes part. From then on a rank gives no keys
// - for a peer and tag with which it has exchanged host memory, by however short a message, or has failed to
//   send or receive;
// - for receives on a communicator on which it has received with a wildcard or by matched probes;
// - once a second thread sends or receives;
// - for further peers and tags of a communicator, once the counts of all communicators have become too many;
// - on inter-communicators, and on communicators without a name (name_of()): among them those on which
//   messages may overtake each other.
// Host messages must not become slower, so they only leave a mark, at a place that others may share.
//
// The keys follow from what both ranks know, and a key that one side does not give is never looked for. The
// counts of a communicator end with it.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "mpi/abi/host_mpi.h"
#include "mpi/core/engine.h"
#include "p2p/posted_buffer.h"

namespace fairlead::mpi {

namespace detail {

class Marks {
 public:
  void set(size_t which) { at(which).store(true, std::memory_order_relaxed); }
  bool has(size_t which) const { return const_cast<Marks*>(this)->at(which).load(std::memory_order_relaxed); }

 private:
  static constexpr unsigned bits = 14;
  std::atomic<bool>& at(size_t which) { return marks_[(which * 0x9e3779b97f4a7c15) >> (64 - bits)]; }
  std::array<std::atomic<bool>, size_t{1} << bits> marks_;
};
extern constinit Marks sent_marks, received_marks, wildcard_marks;

extern constinit thread_local bool thread_is_known;
void meet_thread();
inline void note_thread() {
  if (!thread_is_known) [[unlikely]]
    meet_thread();
}

}  // namespace detail

// For each message, and each receive, that gets no key from the functions below, before the host MPI has it;
// and for each receive before it is cancelled.
inline void note_uncounted_send(int dest, int tag, MPI_Comm comm) {
  detail::note_thread();
  detail::sent_marks.set(HashOfKey()({comm, dest, tag}));
}
inline void note_cancelled_receive(int source, int tag, MPI_Comm comm) {
  if (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG) [[unlikely]]
    detail::wildcard_marks.set(std::hash<MPI_Comm>()(comm));
  else
    detail::received_marks.set(HashOfKey()({comm, source, tag}));
}

inline void note_uncounted_receive(int source, int tag, MPI_Comm comm) {
  detail::note_thread();
  note_cancelled_receive(source, tag, comm);
}

// Lives from before a device message gets its key until the host MPI has the message. Meanwhile no other
// thread begins to send.
class CountedSend {
 public:
  // `world_dest`: the rank of `dest` in MPI_COMM_WORLD.
  CountedSend(int dest, int tag, MPI_Comm comm, int world_dest);
  ~CountedSend();
  CountedSend(const CountedSend&) = delete;
  CountedSend& operator=(const CountedSend&) = delete;
  // False if the message has none.
  const p2p::MessageKey& key() const { return key_; }

 private:
  p2p::MessageKey key_;
  bool outermost_ = false;
};

// What the receives of one sequence have in common.
struct ReceiveSequence {
  uint64_t count = 0;
  // The program computed while the last one was in progress.
  std::atomic<bool> program_computes = false;
};

// The same for a receive into device memory. Its key is valid if is_still_counted() when the host MPI has the
// receive.
class CountedReceive {
 public:
  CountedReceive(int source, int tag, MPI_Comm comm, int world_source);
  ~CountedReceive();
  CountedReceive(const CountedReceive&) = delete;
  CountedReceive& operator=(const CountedReceive&) = delete;
  const p2p::MessageKey& key() const { return key_; }
  // Null unless there is a key.
  const std::shared_ptr<ReceiveSequence>& sequence() const { return sequence_; }

 private:
  p2p::MessageKey key_;
  std::shared_ptr<ReceiveSequence> sequence_;
  bool outermost_ = false;
};
bool is_still_counted(int source, int tag, MPI_Comm comm);

// Partitioned messages have an order of their own: requests match once, in the order of the calls that
// initialise them (MPI 5.0, 4.2.1), which name their source and tag. Call it once for each, whoever moves it.
// No key: the peer is not on this node, or the communicator has no name. Thread-safe.
enum class Direction { to_peer, from_peer };
p2p::MessageKey count_partitioned(Direction direction, int peer, int tag, MPI_Comm comm);

// The counts of all communicators.
size_t counted_sequences();

}  // namespace fairlead::mpi
