// SPDX-License-Identifier: Apache-2.0

#include "observe/ticker.h"

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace fairlead::observe {
namespace {

// Waits on the monotonic clock. Never destroyed: the process may end during the wait.
struct Ticker {
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  std::thread thread;
};
Ticker* ticker = nullptr;

}  // namespace

void start_ticking(int seconds, void (*told)()) {
  ticker = new Ticker;
  // The program's threads must handle the program's signals, so this thread blocks all of them.
  sigset_t all, allowed;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &allowed);
  ticker->thread = std::thread([seconds, told] {
    auto next = std::chrono::steady_clock::now();
    for (;;) {
      next += std::chrono::seconds(seconds);
      std::unique_lock lock(ticker->mutex);
      if (ticker->changed.wait_until(lock, next, [] { return ticker->stopping; })) return;
      lock.unlock();
      told();
    }
  });
  pthread_sigmask(SIG_SETMASK, &allowed, nullptr);
}

void stop_ticking() {
  if (!ticker) return;
  {
    std::lock_guard lock(ticker->mutex);
    ticker->stopping = true;
  }
  ticker->changed.notify_one();
  ticker->thread.join();
  delete ticker;
  ticker = nullptr;
}

}  // namespace fairlead::observe
