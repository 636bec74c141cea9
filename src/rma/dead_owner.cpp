// SPDX-License-Identifier: Apache-2.0

#include "rma/dead_owner.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/log.h"
#include "base/system/namespaces.h"

namespace fairlead::rma {

uint64_t DeadOwnerDetector::own_id() {
  static const uint64_t number = uint64_t{pid_namespace()} << 32;
  return number | static_cast<uint32_t>(getpid());
}

bool DeadOwnerDetector::owner_died(const AccumulateLock& accumulate_lock) {
  constexpr auto between_looks = std::chrono::seconds(1);
  const uint64_t holder = accumulate_lock.holder();
  if (holder == 0) return false;
  const auto pid = static_cast<uint32_t>(holder);
  if (pid == 0 || pid > INT32_MAX) {
    log_line(LogLevel::error, "another process has damaged the lock of an accumulate");
    return true;
  }
  if (const int seconds = report_timer_.due())
    log_line(LogLevel::warn,
             "an accumulate has been waiting for %d s for process %u, which accumulates into the same target",
             seconds, pid);
  const Clock::time_point now = Clock::now();
  if (now - looked_ < between_looks) return false;
  looked_ = now;
  // Processes of other PID namespaces cannot be asked about.
  if (holder >> 32 != own_id() >> 32 || kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH) return false;
  // The owner may have released the lock before it died.
  if (accumulate_lock.holder() != holder) return false;
  log_line(LogLevel::error, "process %u died while it accumulated", pid);
  return true;
}

}  // namespace fairlead::rma
