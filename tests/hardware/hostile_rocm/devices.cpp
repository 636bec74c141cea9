// SPDX-License-Identifier: Apache-2.0
//
// The hostile ROCm's process: initialisation by the first call, current devices, a thread's last error.

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "shim.h"

namespace hostile {
namespace {

thread_local int current = 0;      // among the visible devices
std::atomic<uint64_t> active = 0;  // one bit for each device
thread_local int last_error = result::success;

const char* variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

// The visible devices. A list ends before an entry that is no device.
const std::vector<int>& visible() {
  static const std::vector<int> found = [] {
    std::vector<int> all, chosen;
    int count = 0;
    backend()->device_count(&count);
    for (int device = 0; device < count; ++device) all.push_back(device);
    const char* list = std::getenv("ROCR_VISIBLE_DEVICES");
    if (!list) return all;
    std::istringstream entries(list);
    for (std::string entry; std::getline(entries, entry, ',') && std::atoi(entry.c_str()) < count;)
      chosen.push_back(std::atoi(entry.c_str()));
    return chosen;
  }();
  return found;
}

// The device of this number; -1: there is none.
int number(int ordinal) {
  return ordinal >= 0 && ordinal < int(visible().size()) ? visible()[static_cast<size_t>(ordinal)] : -1;
}

}  // namespace

bool over_sim() {
  static const bool over = std::strcmp(variable("TEST_ROCM_OVER", "sim"), "sim") == 0;
  return over;
}

Runtime* backend() {
  static Runtime* const made = []() -> Runtime* {
    const char* why_not = "";
    Runtime* runtime = over_sim() ? fairlead::device::make_sim(false) : fairlead::device::make_cuda(&why_not);
    int count = 0;
    if (!runtime || runtime->initialize() != Error::none || runtime->device_count(&count) != Error::none ||
        !count)
      return nullptr;
    return runtime;
  }();
  return made;
}

bool has_fault(const char* name) {
  static const std::string faults = std::string(",") + variable("TEST_ROCM_FAULTS", "") + ",";
  return faults.find(std::string(",") + name + ",") != std::string::npos;
}

void die(const char* what) {
  std::fprintf(stderr, "hostile ROCm %s: %s\n", behaviour.release, what);
  std::abort();
}

int begin() {
  return backend() ? result::success : remember(result::no_device);
}

int device() {
  return number(current);
}

int ordinal_of(int device) {
  const auto found = std::find(visible().begin(), visible().end(), device);
  return found == visible().end() ? -1 : static_cast<int>(found - visible().begin());
}

void note_active(int device) {
  active |= uint64_t{1} << device;
}

int remember(int code) {
  if (code != result::success && code != result::not_ready) last_error = code;
  return code;
}

int remember(Error error) {
  constexpr std::pair<Error, int> codes[] = {
      {Error::none, result::success},
      {Error::not_ready, result::not_ready},
      {Error::not_initialized, result::not_initialized},
      {Error::invalid_value, result::invalid_value},
      {Error::out_of_memory, result::out_of_memory},
      {Error::not_supported, result::not_supported},
      {Error::peer_unavailable, result::peer_access_unsupported},
      {Error::already_mapped, result::already_mapped},
      {Error::not_found, result::not_found},
      {Error::capturing, result::stream_capture_unsupported},
  };
  constexpr int unknown = 999;
  for (auto [ours, theirs] : codes)
    if (ours == error) return remember(theirs);
  return remember(unknown);
}

}  // namespace hostile

using namespace hostile;

SHIM int hipInit(unsigned) {
  return begin();
}
SHIM int hipDriverGetVersion(int* version) {
  *version = behaviour.version;
  return result::success;
}
SHIM const char* hipGetErrorName(int code) {
  static thread_local std::string name;
  name = "hipError" + std::to_string(code);
  return code == result::no_device ? "hipErrorNoDevice" : name.c_str();
}
SHIM const char* hipGetErrorString(int) {
  return backend() ? backend()->error_text() : "no device of the provider below";
}
SHIM int hipGetLastError() {
  return std::exchange(last_error, int{result::success});
}

SHIM int hipGetDeviceCount(int* count) {
  int code = begin();
  if (!code) *count = static_cast<int>(visible().size());
  return code || *count ? code : remember(result::no_device);
}
SHIM int hipDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return begin();
}

namespace {

int describe(int device, fairlead::device::DeviceInfo* info) {
  int code = begin();
  return code ? code : remember(backend()->device_info(number(device), info));
}

}  // namespace

SHIM int hipDeviceGetName(char* name, int length, int device) {
  fairlead::device::DeviceInfo info{};
  int code = describe(device, &info);
  if (!code) std::snprintf(name, static_cast<size_t>(length), "%s", info.name);
  return code;
}
SHIM int hipDeviceGetUuid(HipAbi::Uuid* uuid, int device) {
  fairlead::device::DeviceInfo info{};
  int code = describe(has_fault("partitions") ? 0 : device, &info);
  if (code) return code;
  if (behaviour.has_serial_numbers) {
    std::memcpy(uuid, info.uuid, sizeof *uuid);
  } else {
    *uuid = {};
    std::memcpy(uuid->bytes, "XX", 2);
  }
  return code;
}
SHIM int hipDeviceGetPCIBusId(char* name, int length, int device) {
  fairlead::device::DeviceInfo info{};
  int code = describe(has_fault("partitions") ? 0 : device, &info);
  if (!code) std::snprintf(name, static_cast<size_t>(length), "%s", info.pci);
  return code;
}
SHIM int hipDeviceTotalMem(size_t* bytes, int device) {
  fairlead::device::DeviceInfo info{};
  int code = describe(device, &info);
  if (!code) *bytes = info.memory;
  return code;
}
SHIM int hipDeviceGetAttribute(int* value, int attribute, int device) {
  fairlead::device::DeviceInfo info{};
  if (int code = describe(device, &info)) return code;
  switch (attribute) {
    case HipAbi::device_multiprocessors:
      *value = info.multiprocessors;
      return result::success;
    case HipAbi::device_has_words:
      *value = backend()->has_word_operations(number(device));
      return result::success;
    case HipAbi::device_reaches_host:
    case HipAbi::device_is_integrated:
    case HipAbi::device_is_large_bar:
      *value = backend()->kernels_reach_host(number(device));
      return result::success;
    default:
      return remember(result::invalid_value);
  }
}
SHIM int hipDeviceGetP2PAttribute(int* value, int attribute, int device, int peer) {
  fairlead::device::DeviceInfo info{};
  const int code = describe(peer, &info);
  if (!code) *value = attribute == HipAbi::peer_atomics && backend()->has_peer_atomics(number(device), info);
  return code;
}
SHIM int hipDeviceCanAccessPeer(int* possible, int device, int peer) {
  bool answer = false;
  int code = begin();
  if (!code) code = remember(backend()->can_access_peer(number(device), number(peer), &answer));
  if (!code) *possible = answer;
  return code;
}
DISPATCHED(hipGetDevice, (int* device), (device)) {
  *device = current;
  return begin();
}
SHIM int hipSetDevice(int device) {
  int count = 0;
  if (int code = hipGetDeviceCount(&count)) return code;
  if (device < 0 || device >= count) return remember(result::invalid_device);
  current = device;
  return result::success;
}
// clr: a device is active once memory of hipMalloc() was made or a command submitted while it was current.
SHIM int hipDevicePrimaryCtxGetState(int device, unsigned* flags, int* is_active) {
  if (int code = begin()) return code;
  if (number(device) < 0) return remember(result::invalid_device);
  *flags = 0;
  *is_active = static_cast<int>(active >> number(device) & 1);
  return result::success;
}
DISPATCHED(hipDeviceSynchronize, (), ()) {
  int code = begin();
  if (!code) code = remember(backend()->synchronize(device()));
  if (!code) show_to_cpu();
  return code;
}
namespace {

std::mutex peer_mutex;
auto& enabled = *new std::set<std::pair<int, int>>;

}  // namespace

SHIM int hipDeviceEnablePeerAccess(int peer, unsigned) {
  if (int code = begin()) return code;
  std::lock_guard lock(peer_mutex);
  if (enabled.count({current, peer})) return remember(result::peer_access_already_enabled);
  int code = remember(backend()->enable_peer(device(), number(peer)));
  if (!code) enabled.insert({current, peer});
  return code;
}
DISPATCHED(hipDeviceReset, (), ()) {
  if (int code = hipDeviceSynchronize_itself()) return code;
  end_streams_of(current);
  end_virtual_memory_of(current);
  end_memory_of(current);
  std::lock_guard lock(peer_mutex);
  std::erase_if(enabled, [](const auto& pair) { return pair.first == current || pair.second == current; });
  return remember(backend()->reset(current));
}
