// SPDX-License-Identifier: Apache-2.0

#include "device/registered_memory.h"

#include <map>

#include "base/log.h"
#include "device/runtime.h"
#include "device/waiting_calls.h"

namespace fairlead::device {
namespace {

struct Registration {
  size_t bytes;
  bool refused;
  std::map<int, void*> for_kernels;  // by device
};
auto& registrations = *new std::map<void*, Registration>;

}  // namespace

bool register_memory(void* start, size_t bytes) {
  if (auto known = registrations.find(start); known != registrations.end()) return !known->second.refused;
  const WaitingCalls::Permission permission;
  if (!permission.may_make()) return false;
  const bool refused = runtime()->register_host(start, bytes) != Error::none;
  if (refused) log_line(LogLevel::info, "shared memory could not be registered: %s", runtime()->error_text());
  registrations[start] = {bytes, refused, {}};
  return !refused;
}

void* registered_for_kernels(int device, void* start) {
  const auto registration = registrations.find(start);
  if (registration == registrations.end() || registration->second.refused) return nullptr;
  std::map<int, void*>& known = registration->second.for_kernels;
  const auto found = known.find(device);
  if (found != known.end()) return found->second;
  return known[device] = runtime()->address_for_kernels(device, start);
}

size_t registered_bytes() {
  size_t bytes = 0;
  for (const auto& [start, registration] : registrations)
    if (!registration.refused) bytes += registration.bytes;
  return bytes;
}

void unregister_memory() {
  std::erase_if(registrations, [](auto& entry) {
    return entry.second.refused || runtime()->unregister_host(entry.first) == Error::none;
  });
}

}  // namespace fairlead::device
