// SPDX-License-Identifier: Apache-2.0

#include "observe/ticker.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "base/library_thread.h"

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
  ticker->thread = start_library_thread("fairlead-report", [seconds, told] {
    auto next = std::chrono::steady_clock::now();
    for (;;) {
      next += std::chrono::seconds(seconds);
      std::unique_lock lock(ticker->mutex);
      if (ticker->changed.wait_until(lock, next, [] { return ticker->stopping; })) return;
      lock.unlock();
      told();
    }
  });
}

void stop_ticking() {
  if (!ticker) return;
  {
    std::lock_guard lock(ticker->mutex);
    ticker->stopping = true;
  }
  ticker->changed.notify_one();
  if (ticker->thread.joinable()) ticker->thread.join();
  delete ticker;
  ticker = nullptr;
}

}  // namespace fairlead::observe
