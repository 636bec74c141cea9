// SPDX-License-Identifier: Apache-2.0

#include "rma/dead_owner.h"

#include <signal.h>

#include <cerrno>
#include <cstdint>

#include "base/log.h"

namespace fairlead::rma {

bool DeadOwnerDetector::owner_died(const AccumulateLock& accumulate_lock) {
  constexpr auto between_looks = std::chrono::seconds(1);
  const uint64_t holder = accumulate_lock.holder();
  if (holder == 0) return false;
  if (holder > INT32_MAX) {
    log_line(LogLevel::error, "another process has damaged the lock of an accumulate");
    return true;
  }
  if (const int seconds = report_timer_.due())
    log_line(
        LogLevel::warn,
        "an accumulate has been waiting for %d s for process %llu, which accumulates into the same target",
        seconds, static_cast<unsigned long long>(holder));
  const Clock::time_point now = Clock::now();
  if (now - looked_ < between_looks) return false;
  looked_ = now;
  if (kill(static_cast<pid_t>(holder), 0) == 0 || errno != ESRCH) return false;
  // The owner may have released the lock before it died.
  if (accumulate_lock.holder() != holder) return false;
  log_line(LogLevel::error, "process %llu died while it accumulated",
           static_cast<unsigned long long>(holder));
  return true;
}

}  // namespace fairlead::rma
