// SPDX-License-Identifier: Apache-2.0

#include "node/doorbell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace fairlead::node {
namespace {

// Not FUTEX_PRIVATE_FLAG: other processes map this memory.
long futex(std::atomic<uint32_t>* word, int operation, uint32_t value, const timespec* longest = nullptr) {
  return syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), operation, value, longest, nullptr, 0);
}

}  // namespace

void Doorbell::wait(uint32_t seen, std::chrono::nanoseconds longest) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec limit = {static_cast<time_t>(seconds.count()),
                          static_cast<long>((longest - seconds).count())};
  sleeps_.store(1);
  futex(&rings_, FUTEX_WAIT, seen, &limit);
  sleeps_.store(0);
}

void Doorbell::ring() {
  rings_.fetch_add(1);
  if (sleeps_.load()) futex(&rings_, FUTEX_WAKE, INT_MAX);
}

}  // namespace fairlead::node
