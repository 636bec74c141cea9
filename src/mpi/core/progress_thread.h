// SPDX-License-Identifier: Apache-2.0
//
// A thread of Fairlead's that makes progress while the program's threads compute, or are blocked in a host
// MPI call that cannot be polled (M6). The first work for it starts it; it sleeps while there is none.
//
// The thread progresses nonblocking collectives on the GPU, without calls of the host MPI. If the host MPI
// provides MPI_THREAD_MULTIPLE, it also makes whole rounds of progress:
// - for windows with active-message targets, while a thread of the program is blocked in the host MPI;
// - while operations are enqueued on GPU streams;
// - with FAIRLEAD_PROGRESS_THREAD, for which MPI_Init requests that level: for windows always, and while long
//   nonblocking operations are in progress.
//
// While a thread of the program polls, this one sleeps, except for windows. Otherwise the ranks of the node
// ring its doorbell when they have sent a message or arrived at a collective, so it need not poll for them.

#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "mpi/abi/mutex.h"
#include "node/doorbell.h"

namespace fairlead::mpi {

class Operation;

class ProgressThread {
 public:
  static constexpr uint64_t worth_waking = 64 << 10;
  // From so many bytes on an operation is long, in jobs of several nodes and of one: shorter ones take less
  // time than the thread needs to wake and to let the program's threads continue.
  static constexpr uint64_t long_between_nodes = 256 << 10, long_in_node = 16 << 20;

  // Called before MPI_Init if the program is made to enqueue operations on GPU streams, for which the thread
  // must make progress: a program asks for that, or imports their functions and does not ask for the thread
  // level itself.
  static void expect_enqueued();
  static void expect_enqueued_by_imports();
  static void disregard_imports();
  // Shall MPI_Init request MPI_THREAD_MULTIPLE from the host MPI?
  static bool wants_threads();
  // The thread may call the host MPI. Logs a warning if it was requested and is not possible.
  void allow_host_calls(bool threads);
  // Called before the host MPI's MPI_Finalize: quirk finalize_drops_locks.
  void end_host_calls();

  // Collectives: advance_without_host() is called until forget(), which may be called any number of times.
  // The caller holds the engine's lock; it also calls wake_for() if there is something to do, or stand_by()
  // if others ring.
  void help(Operation* operation);
  void forget(Operation* operation);
  // May the thread call the host MPI for messages?
  bool helps_messages() const;
  // Operations that are enqueued on a GPU stream: nobody rings when the stream comes to them.
  void begin_enqueued();
  void end_enqueued(bool in_graph);
  // The operation is part of a graph now.
  void keep_in_graph();
  // While a thread of the program calls the host MPI to enqueue an operation, this thread makes way for it:
  // both need the locks of the host MPI.
  class CallsHost {
   public:
    explicit CallsHost(ProgressThread& thread) : thread_(thread) { ++thread_.called_; }
    ~CallsHost() { --thread_.called_; }
    CallsHost(const CallsHost&) = delete;
    CallsHost& operator=(const CallsHost&) = delete;

   private:
    ProgressThread& thread_;
  };
  // A long nonblocking operation has started, or has ended.
  void begin_long() { begin(); }
  void end_long() { --outstanding_; }
  // Starts the thread now. False: it cannot be created.
  bool exists();
  // What has started needs rounds. Otherwise only a ring tells when it can continue.
  void wake();
  // The same, but what moves few bytes may wait for the thread's next check: it is over before the thread is
  // awake.
  void wake_for(uint64_t bytes) {
    if (bytes >= worth_waking || sleeps_for_ever_) wake();
  }
  // Sees to it that others can wake the thread, which need not run now.
  void stand_by();
  // A thread of the program has begun to poll, or the last one has ended.
  void note_attended(bool attended) {
    if (outstanding_ > 0) attend(attended);
  }
  // Adds `change` to the number of windows with active-message targets, or of threads blocked in the host
  // MPI.
  void note_active_message_window(int change);
  void note_blocked_thread(int change);
  // Where the ranks of the node ring; null: nowhere. What it replaces must stay valid.
  void use(node::Doorbell* doorbell);
  // Called in MPI_Finalize, without the engine's lock. NCCL may use memory of the thread until it is
  // released.
  void stop();

 private:
  using Duration = std::chrono::nanoseconds;

  void begin();
  void attend(bool attended);
  void start();
  void run();
  void make_way();
  node::Hears heard() const;
  void listen();
  // One round; the longest time until the next one.
  Duration round(Duration since_ring);
  bool serves_windows() const;

  Mutex starting_;
  std::thread thread_;
  std::atomic<bool> started_ = false;  // or was to be
  std::atomic<bool> stopping_ = false;
  node::Doorbell own_{};
  std::atomic<node::Doorbell*> doorbell_ = &own_;
  std::vector<Operation*> operations_;  // the engine's lock guards it
  // Held in rounds that call the host MPI, and while handlers run that such a round has put off.
  std::mutex calling_host_;
  std::atomic<bool> may_call_host_ = false;
  std::atomic<int> outstanding_ = 0;  // operations_, long ones and enqueued ones
  std::atomic<int> enqueued_ = 0, called_ = 0;
  std::atomic<bool> sleeps_for_ever_ = true;  // or does not exist
  std::atomic<int> windows_ = 0, blocked_ = 0;
};

ProgressThread& progress_thread();

}  // namespace fairlead::mpi
