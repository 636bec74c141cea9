// SPDX-License-Identifier: Apache-2.0
//
// All device operations of this rank that are not over, and their progress. There is one engine per
// process; MPI_Init, or a session, opens it. Its lock guards every operation and everything below src/mpi; it
// is never held while a host MPI call can block or call back the user's error handler.

#pragma once

#include <atomic>
#include <chrono>
#include <climits>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/schedule.h"
#include "mpi/abi/host_mpi.h"
#include "node/node.h"
#include "p2p/rendezvous_send.h"

namespace fairlead::mpi {

class Operation;

// What a posted receive waits for. Of several with one key, the first posted is the first matched.
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

// Between two rounds of a blocking call: spins politely, because ranks may share cores, and does what is best
// done while there is nothing else to do.
class Backoff {
 public:
  void pause();

 private:
  int idle_ = 0;
};

class Engine {
 public:
  // `node` may be null: no shared memory with anybody, every message travels plain.
  // `self` is a communicator of this process alone, `silent` one of the job on which nobody sends; no other
  // code uses them. `threads`: several threads may call MPI at once.
  // Opening again replaces these; operations that are under way go on.
  void open(std::unique_ptr<node::Node> node, const node::Nonce& nonce, MPI_Comm self, MPI_Comm silent,
            bool threads);
  void allow_threads();
  // MPI_Finalize, in this order: makes progress until all ranks of the node have come here, so that nobody
  // fetches any more; closes the mappings of their memory; and once all have done so, frees what they mapped.
  template <class OthersDone>
  void drain(OthersDone others_done) {
    for (Backoff backoff; !others_done(); backoff.pause()) progress();
  }
  void release_imports();
  void release_exports();

  // What is left, for leak checks.
  struct Counts {
    size_t operations, requests, buffered;
  };
  Counts counts();

  node::Node* node() const { return node_.get(); }
  const node::Nonce& nonce() const { return nonce_; }
  MPI_Comm self() const { return self_; }
  std::mutex& mutex() { return mutex_; }

  bool threads() const { return threads_; }
  // Is there any operation, buffered send or stashed message? If not, completion calls forward unchanged.
  // Always so where threads share MPI: one may start a device operation while another sits in the host MPI.
  bool busy() const { return busy_.load(std::memory_order_relaxed) != 0; }
  // For things kept elsewhere that must be looked at (stashed messages, persistent requests).
  void keep_busy(int change) { busy_.fetch_add(change, std::memory_order_relaxed); }

  // An operation is advanced from add() to remove(). Both take the lock.
  void add(Operation* operation);
  void remove(Operation* operation);
  // Are all operations complete?
  bool idle();
  // The requests the user holds. Null when `request` is not ours.
  void bind(MPI_Request request, Operation* operation);
  void unbind(MPI_Request request);
  Operation* find(MPI_Request request);
  // The user freed the request: the engine keeps the operation until it is over.
  void defer_free(std::unique_ptr<Operation> operation);

  void progress();
  // In calls that start something: who posts many messages and then waits would find the GPU idle all the
  // while.
  void progress_now_and_then();
  void wait(Operation& operation);

  // May a send that is being waited for be buffered now? Not while its receiver is taking up others.
  bool timed_out(int receiver, std::chrono::steady_clock::time_point waiting_since);
  void note_progress_of(int receiver);

  void enter_blocking_call();
  void leave_blocking_call();

 private:
  void progress_locked();
  void end_deferred(Operation* operation);
  void nudge_host();
  std::chrono::steady_clock::time_point time_of_round();
  void quiesce();
  bool quiesced();
  // A send is over for the user; its receiver may still want the bytes.
  void keep(std::unique_ptr<p2p::RendezvousSend> rendezvous);

  std::unique_ptr<node::Node> node_;
  node::Nonce nonce_{};
  MPI_Comm self_ = MPI_COMM_NULL, silent_ = MPI_COMM_NULL;
  std::mutex mutex_;
  std::atomic<int> busy_{0};
  std::atomic<int> blocking_calls_{0};
  bool threads_ = false;
  unsigned rounds_ = 0;
  std::atomic<unsigned> starts_ = 0;
  unsigned timed_round_ = UINT_MAX;
  std::chrono::steady_clock::time_point time_of_round_{};
  Schedule<Operation, MatchKey, HashOfKey> operations_;
  // Adopted and complete; their host message is not freed yet.
  std::vector<std::unique_ptr<Operation>> ended_;
  std::vector<std::unique_ptr<p2p::RendezvousSend>> kept_;
  std::unordered_map<MPI_Request, Operation*> by_request_;
  std::vector<std::chrono::steady_clock::time_point> last_progress_;
};

Engine& engine();

}  // namespace fairlead::mpi
