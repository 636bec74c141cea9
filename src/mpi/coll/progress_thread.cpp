// SPDX-License-Identifier: Apache-2.0

#include "mpi/coll/progress_thread.h"

#include <chrono>
#include <csignal>

#include "device/copy.h"
#include "mpi/coll/collective_operation.h"
#include "mpi/core/engine.h"

namespace fairlead::mpi {
namespace {

// The pause between two rounds: short compared to a collective that is worth overlapping.
constexpr auto pause = std::chrono::microseconds(20);

}  // namespace

ProgressThread& progress_thread() {
  // Never destroyed: the process may exit while the thread runs.
  static auto* only = new ProgressThread;
  return *only;
}

void ProgressThread::help(CollectiveOperation* operation) {
  operations_.push_back(operation);
  if (!thread_.joinable()) {
    // Blocks all signals in this thread; the program's own threads handle them.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread(&ProgressThread::run, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  wake_.notify_one();
}

void ProgressThread::forget(CollectiveOperation* operation) {
  std::erase(operations_, operation);
}

void ProgressThread::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(engine().mutex());
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  stopping_ = false;
}

void ProgressThread::run() {
  std::unique_lock lock(engine().mutex());
  while (!stopping_) {
    if (operations_.empty()) {
      wake_.wait(lock);
      continue;
    }
    // In the order of their starts. An operation that completes removes itself from the list.
    for (size_t i = 0; i < operations_.size();) {
      CollectiveOperation* const operation = operations_[i];
      operation->advance_on_gpu();
      if (i < operations_.size() && operations_[i] == operation) ++i;
    }
    device::start_enqueued();
    lock.unlock();
    std::this_thread::sleep_for(pause);
    lock.lock();
  }
}

}  // namespace fairlead::mpi
