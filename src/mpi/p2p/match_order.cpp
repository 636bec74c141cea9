// SPDX-License-Identifier: Apache-2.0

#include "mpi/p2p/match_order.h"

#include <sched.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/log.h"
#include "base/mix.h"
#include "mpi/abi/mutex.h"
#include "mpi/core/communicator.h"

namespace fairlead::mpi {

constinit detail::Marks detail::sent_marks, detail::received_marks, detail::wildcard_marks;
constinit thread_local bool detail::thread_is_known = false;

namespace {

// The first thread that sends or receives counts, until there is a second one. That may be the progress
// thread, which starts what is enqueued on GPU streams.
std::atomic<bool> has_thread = false, has_threads = false;
thread_local bool counts_here = false;
std::atomic<bool> sending = false;
bool receiving = false;  // in the thread that counts

constexpr size_t most_sequences = 1 << 16;
std::atomic<size_t> sequences = 0;  // of all communicators

}  // namespace

// What this side knows of the sequences of a communicator, by MessageKey::sequence.
struct MessageCounts {
  MessageCounts() = default;
  ~MessageCounts() { sequences -= sent.size() + received.size(); }
  MessageCounts(const MessageCounts&) = delete;
  MessageCounts& operator=(const MessageCounts&) = delete;
  std::unordered_map<uint64_t, uint64_t> sent;
  std::unordered_map<uint64_t, ReceiveSequence> received;
  bool full = false;  // some messages were not counted, so no further sequence begins
};

namespace {

// `peer` is a rank in MPI_COMM_WORLD. Returns 0 where no message can be counted.
uint64_t key_of(MPI_Comm comm, int tag, Direction direction, int peer,
                std::shared_ptr<MessageCounts>** counts) {
  const node::Node* const node = engine().node();
  if (peer < 0 || !node || node->node_rank_of_world(peer) < 0) return 0;
  const uint64_t name = name_of(comm, counts);
  if (name == 0) return 0;
  int from = peer, to = node->world_rank(node->rank());
  if (direction == Direction::to_peer) std::swap(from, to);
  const auto ranks = static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
  return mixed(mixed(name, ranks), static_cast<uint32_t>(tag)) | 1;
}

template <class Sequence>
uint64_t find_sequence(std::unordered_map<uint64_t, Sequence> MessageCounts::*side, MPI_Comm comm, int tag,
                       Direction direction, int peer, std::shared_ptr<Sequence>* sequence) {
  detail::note_thread();
  if (!counts_here || has_threads) return 0;
  std::shared_ptr<MessageCounts>* counts = nullptr;
  const uint64_t key = key_of(comm, tag, direction, peer, &counts);
  if (key == 0) return 0;
  if (!*counts) *counts = std::make_shared<MessageCounts>();
  auto& known = (**counts).*side;
  auto found = known.find(key);
  if (found == known.end()) {
    bool& full = (*counts)->full;
    full = full || sequences >= most_sequences;
    if (full) {
      static std::once_flag said;
      std::call_once(said, [] {
        log_line(LogLevel::info,
                 "messages have so many tags and communicators that senders no longer write to all posted "
                 "buffers");
      });
      return 0;
    }
    found = known.try_emplace(key).first;
    ++sequences;
  }
  *sequence = {*counts, &found->second};
  return key;
}

}  // namespace

// A message of the second thread must not overtake one that is being sent to a known receive.
void detail::meet_thread() {
  thread_is_known = true;
  if (!has_thread.exchange(true)) {
    counts_here = true;
    return;
  }
  has_threads = true;
  while (sending) sched_yield();
}

// A send or receive inside another one is that of an error handler of the program, which the host MPI has
// called because it refuses the other one.
CountedSend::CountedSend(int dest, int tag, MPI_Comm comm, int world_dest) {
  std::shared_ptr<uint64_t> count;
  const uint64_t sequence =
      find_sequence(&MessageCounts::sent, comm, tag, Direction::to_peer, world_dest, &count);
  if (sequence == 0) return;
  const uint64_t number = ++*count;
  if (sending) {
    note_uncounted_send(dest, tag, comm);
    return;
  }
  sending = outermost_ = true;
  if (!has_threads && !detail::sent_marks.has(HashOfKey()({comm, dest, tag}))) key_ = {sequence, number};
}

CountedSend::~CountedSend() {
  if (outermost_) sending.store(false, std::memory_order_release);
}

CountedReceive::CountedReceive(int source, int tag, MPI_Comm comm, int world_source) {
  if (source == MPI_ANY_SOURCE || tag == MPI_ANY_TAG) note_uncounted_receive(source, tag, comm);
  std::shared_ptr<ReceiveSequence> found;
  const uint64_t which =
      find_sequence(&MessageCounts::received, comm, tag, Direction::from_peer, world_source, &found);
  if (which == 0) return;
  ++found->count;
  if (receiving) {
    note_uncounted_receive(source, tag, comm);
    return;
  }
  receiving = outermost_ = true;
  if (!is_still_counted(source, tag, comm)) return;
  key_ = {which, found->count};
  sequence_ = std::move(found);
}

CountedReceive::~CountedReceive() {
  if (outermost_) receiving = false;
}

bool is_still_counted(int source, int tag, MPI_Comm comm) {
  return !has_threads && !detail::wildcard_marks.has(std::hash<MPI_Comm>()(comm)) &&
         !detail::received_marks.has(HashOfKey()({comm, source, tag}));
}

p2p::MessageKey count_partitioned(Direction direction, int peer, int tag, MPI_Comm comm) {
  struct Counts {
    Mutex mutex;
    std::unordered_map<uint64_t, uint64_t> of[2];
  };
  static auto& counts = *new Counts;
  std::lock_guard lock(counts.mutex);
  std::shared_ptr<MessageCounts>* unused = nullptr;
  const uint64_t key = key_of(comm, tag, direction, rank_in_world(comm, peer), &unused);
  if (key == 0) return {};
  return {key, ++counts.of[direction == Direction::to_peer][key]};
}

size_t counted_sequences() {
  return sequences;
}

}  // namespace fairlead::mpi
