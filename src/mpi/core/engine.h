// SPDX-License-Identifier: Apache-2.0
//
// All unfinished device operations of this rank, and their progress. A process has one engine; MPI_Init, or a
// session, opens it. Its lock guards every operation and everything below src/mpi. No thread holds the lock
// during a host MPI call that can block or can call the user's error handler.

#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/schedule.h"
#include "base/system/processor.h"
#include "mpi/abi/host_mpi.h"
#include "mpi/abi/mutex.h"
#include "node/node.h"
#include "p2p/rendezvous_send.h"

namespace fairlead::mpi {

class Operation;

// What a posted receive matches. Receives with equal keys match in the order in which they were posted.
struct MatchKey {
  MPI_Comm comm;
  int source, tag;
  bool operator==(const MatchKey&) const = default;
};
struct HashOfKey {
  size_t operator()(const MatchKey& key) const {
    const auto words =
        static_cast<uint64_t>(static_cast<uint32_t>(key.source)) << 32 | static_cast<uint32_t>(key.tag);
    return std::hash<MPI_Comm>()(key.comm) ^ std::hash<uint64_t>()(words * 0x9e3779b97f4a7c15);
  }
};

// A blocking call keeps one while it makes progress, so that the progress thread can sleep, and calls pause()
// between rounds. Spins briefly, then yields the core, because ranks may share cores. Also does deferred work
// that suits idle time.
class Backoff {
 public:
  Backoff();
  ~Backoff();
  Backoff(const Backoff&) = delete;
  Backoff& operator=(const Backoff&) = delete;
  void pause();

 private:
  int idle_ = 0;
};

class Engine {
 public:
  // `node` may be null: this rank shares memory with no other, and every message is staged through host
  // memory. `self` is a communicator of this process alone; `silent` is one of the job on which nobody sends.
  // Only Fairlead uses these two. `threads`: several threads may call MPI at once. A second call replaces all
  // of these; operations in flight continue.
  void open(std::unique_ptr<node::Node> node, const node::Nonce& nonce, MPI_Comm self, MPI_Comm silent,
            bool threads);
  void allow_threads();
  // MPI_Finalize calls these two in order, when no rank of the node fetches data any more. release_imports()
  // closes the mappings of other ranks' memory. Once all ranks have done so, release_exports() frees the
  // memory that they mapped.
  void release_imports();
  void release_exports();

  // The objects that are not freed yet, for leak checks.
  struct Counts {
    size_t operations, requests, buffered;
  };
  Counts counts();
  // The calls that the requests in bind() are of: "MPI_Isend at program+0x1234, a send of 4096 bytes to rank
  // 1 with tag 5, was never completed".
  std::vector<std::string> unfinished_calls();

  node::Node* node() const { return node_.get(); }
  const node::Nonce& nonce() const { return nonce_; }
  MPI_Comm self() const { return self_; }
  Mutex& mutex() { return mutex_; }

  bool threads() const { return threads_; }
  // Is there any operation, buffered send or probed message? If not, completion calls forward unchanged.
  // Always true if threads share MPI: one may start a device operation while another is blocked in the host
  // MPI.
  bool busy() const { return busy_.load(std::memory_order_relaxed) != 0; }
  // Counts objects kept elsewhere that completion calls must consider (probed messages, persistent requests).
  void keep_busy(int change) { busy_.fetch_add(change, std::memory_order_relaxed); }

  // The engine advances an operation from add() to remove(). Both take the lock.
  void add(Operation* operation);
  void remove(Operation* operation);
  // Are all operations complete?
  bool idle() { return state() == State::idle; }
  // awaits: all that are not complete wait for a message, or for other ranks and GPUs.
  enum class State { idle, awaits, moves };
  State state();
  // May messages come from other nodes, whose ranks cannot ring?
  bool spans_nodes() const { return spans_nodes_; }
  // The requests that the user holds. find() returns null if `request` is not Fairlead's.
  void bind(MPI_Request request, Operation* operation);
  void unbind(MPI_Request request);
  Operation* find(MPI_Request request);
  // The user freed the request: the engine keeps the operation until it ends.
  void defer_free(std::unique_ptr<Operation> operation);

  void progress();
  // For calls that start an operation: makes progress at one call in several. Otherwise the GPU would idle
  // while a program posts many messages before it waits. `soon`: also at this call, if it is one of the first
  // since the program completed an operation; a round at each of many would hold up the messages that the
  // program starts next. Returns whether it made progress.
  bool progress_at_start(bool soon);
  void wait(Operation& operation);

  // May a send that a caller waits for be buffered now? Not while its receiver claims and completes others:
  // the timeout restarts at each of them.
  bool timed_out(int receiver, std::chrono::steady_clock::time_point waiting_since);
  void note_progress_of(int receiver);

  // Does a thread of the program make progress, in a blocking call?
  void attend(int change);
  bool attended() const { return attending_ > 0; }
  // A nonblocking operation has started, and the call is about to return.
  void note_start() { last_start_.store(ticks(), std::memory_order_relaxed); }
  // Did the program do something else between the last start and the blocking call that followed?
  bool program_computed() const { return program_computed_.load(std::memory_order_relaxed); }

  void enter_blocking_call();
  void leave_blocking_call();

 private:
  void progress_locked();
  void take_out(Operation* operation);
  void end_deferred(Operation* operation);
  void nudge_host();
  void look_for_failures();
  std::chrono::steady_clock::time_point time_of_round();
  void quiesce();
  bool quiesced();
  // The send is complete for the user, but its receiver may still request the bytes.
  void keep(std::unique_ptr<p2p::RendezvousSend> rendezvous);

  std::unique_ptr<node::Node> node_;
  node::Nonce nonce_{};
  MPI_Comm self_ = MPI_COMM_NULL, silent_ = MPI_COMM_NULL;
  Mutex mutex_;
  std::atomic<int> busy_{0};
  std::atomic<int> blocking_calls_{0}, attending_{0};
  bool threads_ = false, spans_nodes_ = false;
  std::atomic<uint64_t> last_start_{0};  // in ticks of the processor
  std::atomic<bool> program_computed_ = false;
  unsigned rounds_ = 0;
  std::atomic<unsigned> starts_ = 0;  // since the program last completed an operation
  unsigned timed_round_ = UINT_MAX;
  std::chrono::steady_clock::time_point time_of_round_{}, looked_for_failures_{};
  Schedule<Operation, MatchKey, HashOfKey> operations_;
  // Complete operations with a deferred free, whose host message is not freed yet.
  std::vector<std::unique_ptr<Operation>> ended_;
  std::vector<std::unique_ptr<p2p::RendezvousSend>> kept_;
  std::unordered_map<MPI_Request, Operation*> by_request_;
  std::vector<std::chrono::steady_clock::time_point> last_progress_;
};

namespace detail {
extern constinit std::atomic<Engine*> engine;
Engine* make_engine();
}  // namespace detail
inline Engine& engine() {
  Engine* made = detail::engine.load(std::memory_order_acquire);
  return made ? *made : *detail::make_engine();
}

}  // namespace fairlead::mpi
