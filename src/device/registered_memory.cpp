// SPDX-License-Identifier: Apache-2.0

#include "device/registered_memory.h"

#include <map>

#include "base/log.h"
#include "device/blocking_driver_calls.h"
#include "device/context.h"

namespace fairlead::device {
namespace {

struct Registration {
  struct Place {
    void* address;
    Context context;
  };
  size_t bytes;
  bool refused;
  Context context;
  std::map<int, Place> for_kernels;  // by device
};
auto& registrations = *new std::map<void*, Registration>;

}  // namespace

bool register_memory(void* start, size_t bytes) {
  if (auto known = registrations.find(start);
      known != registrations.end() && !known->second.context.is_gone_for_any())
    return !known->second.refused;
  const BlockingDriverCalls calls;
  if (!calls.may_allocate()) return false;
  int device = -1;
  const bool refused = calls->register_host(start, bytes, &device) != Error::none;
  if (refused) log_line(LogLevel::info, "shared memory could not be registered: %s", runtime()->error_text());
  registrations[start] = {bytes, refused, Context(device), {}};
  return !refused;
}

void* registered_for_kernels(int device, void* start) {
  const auto registration = registrations.find(start);
  if (registration == registrations.end() || registration->second.refused) return nullptr;
  if (registration->second.context.is_gone_for_any() &&
      (BlockingDriverCalls::in_thread_of_library || !register_memory(start, registration->second.bytes)))
    return nullptr;
  auto& known = registration->second.for_kernels;
  const auto found = known.find(device);
  if (found != known.end() && !found->second.context.is_gone()) return found->second.address;
  const Context context(device);
  known[device] = {runtime()->address_for_kernels(device, start), context};
  return known[device].address;
}

size_t registered_bytes() {
  size_t bytes = 0;
  for (const auto& [start, registration] : registrations)
    if (!registration.refused) bytes += registration.bytes;
  return bytes;
}

void unregister_memory() {
  const BlockingDriverCalls calls;
  if (!calls) return;
  std::erase_if(registrations, [&](auto& entry) {
    const auto& [start, registration] = entry;
    return registration.refused || registration.context.is_gone() ||
           calls->unregister_host(start) == Error::none;
  });
}

}  // namespace fairlead::device
