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

struct Unused {
  Context context;
  std::function<void(Runtime&)> end;
};

std::mutex mutex;
auto& unused = *new std::vector<Unused>;
std::atomic<bool> any = false;
RateLimit look_again;

}  // namespace

void end_unused(const Context& context, std::function<void(Runtime&)> end) {
  std::lock_guard lock(mutex);
  if (const BlockingDriverCalls calls; calls.may_allocate()) {
    if (!context.is_gone()) end(*calls);
    return;
  }
  unused.push_back({context, std::move(end)});
  any = true;
}

void end_unused_again() {
  if (!any.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(mutex);
  if (!look_again.due()) return;
  const BlockingDriverCalls calls;
  if (!calls.may_allocate()) return;
  for (const auto& [context, end] : unused)
    if (!context.is_gone()) end(*calls);
  unused.clear();
  any = false;
}

}  // namespace fairlead::device
