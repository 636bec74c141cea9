// SPDX-License-Identifier: Apache-2.0

#include "device/unused.h"

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/rate_limit.h"
#include "device/blocking_driver_calls.h"

namespace fairlead::device {
namespace {

std::mutex mutex;
auto& unused = *new std::vector<std::function<void(Runtime&)>>;
std::atomic<bool> any = false;
RateLimit look_again;

// The caller holds the lock.
void try_to_end() {
  const BlockingDriverCalls calls;
  if (!calls.may_allocate()) return;
  for (const auto& end : unused) end(*calls);
  unused.clear();
  any = false;
}

}  // namespace

void end_unused(std::function<void(Runtime&)> end) {
  std::lock_guard lock(mutex);
  unused.push_back(std::move(end));
  any = true;
  try_to_end();
}

void end_unused_again(Again again) {
  if (!any.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex);
  if (again == Again::at_once || look_again.due()) try_to_end();
}

}  // namespace fairlead::device
