// SPDX-License-Identifier: Apache-2.0

#include "mpi/rma/service_thread.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "base/log.h"
#include "base/options.h"
#include "mpi/core/engine.h"
#include "mpi/network/host_capability.h"

namespace fairlead::mpi {
namespace {

// The pause between two rounds of progress. A request may wait at least this long for an answer; the core
// belongs to the program meanwhile.
constexpr auto pause = std::chrono::microseconds(20);

struct Service {
  std::mutex mutex;
  std::condition_variable wake;
  std::thread thread;
  std::atomic<int> windows = 0, blocking = 0;
  std::atomic<bool> allowed = false;
  bool stopping = false;

  bool is_needed() const { return windows > 0 && (blocking > 0 || service_thread_wanted()); }
  void run() {
    std::unique_lock lock(mutex);
    while (!stopping) {
      if (!is_needed()) {
        wake.wait(lock);
        continue;
      }
      lock.unlock();
      network::lend_device();
      engine().progress();
      std::this_thread::sleep_for(pause);
      lock.lock();
    }
  }
};

Service& service() {
  // Never destroyed: the process may exit while the thread runs.
  static auto* only = new Service;
  return *only;
}

}  // namespace

bool service_thread_wanted() {
  return options().rma_thread;
}

void allow_service_thread(bool threads) {
  service().allowed = threads;
  note_active_message_window(0);
  if (service_thread_wanted() && !threads)
    log_line(LogLevel::warn,
             "FAIRLEAD_RMA_THREAD is on, but this MPI does not give MPI_THREAD_MULTIPLE; targets "
             "answer in MPI calls only");
}

void note_active_message_window(int change) {
  Service& it = service();
  std::lock_guard lock(it.mutex);
  it.windows += change;
  if (!it.allowed || it.windows == 0) return;
  if (!it.thread.joinable()) {
    // Blocks all signals in this thread; the program's own threads handle them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    it.thread = std::thread(&Service::run, &it);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  it.wake.notify_one();
}

void note_blocked_thread(int change) {
  Service& it = service();
  it.blocking += change;
  if (change < 0 || !it.allowed || it.windows == 0) return;
  std::lock_guard lock(it.mutex);
  it.wake.notify_one();
}

void stop_service_thread() {
  Service& it = service();
  {
    std::lock_guard lock(it.mutex);
    it.allowed = false;
    if (!it.thread.joinable()) return;
    it.stopping = true;
  }
  it.wake.notify_one();
  it.thread.join();
  it.stopping = false;
}

}  // namespace fairlead::mpi
