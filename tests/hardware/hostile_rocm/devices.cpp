// SPDX-License-Identifier: Apache-2.0
//
// The hostile ROCm's process: initialisation by the first call, current devices, a thread's last error.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "shim.h"

namespace hostile {
namespace {

thread_local int current = 0;
thread_local int last_error = result::success;

const char* variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
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
  return current;
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
  return code ? code : remember(backend()->device_count(count));
}
SHIM int hipDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return begin();
}

namespace {

int describe(int device, fairlead::device::DeviceInfo* info) {
  int code = begin();
  return code ? code : remember(backend()->device_info(device, info));
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
      *value = backend()->has_word_operations(device);
      return result::success;
    case HipAbi::device_is_large_bar:
      *value = 0;
      return result::success;
    default:
      return remember(result::invalid_value);
  }
}
SHIM int hipDeviceGetP2PAttribute(int* value, int attribute, int device, int peer) {
  fairlead::device::DeviceInfo info{};
  const int code = describe(peer, &info);
  if (!code) *value = attribute == HipAbi::peer_atomics && backend()->has_peer_atomics(device, info);
  return code;
}
SHIM int hipDeviceCanAccessPeer(int* possible, int device, int peer) {
  bool answer = false;
  int code = begin();
  if (!code) code = remember(backend()->can_access_peer(device, peer, &answer));
  if (!code) *possible = answer;
  return code;
}
SHIM int hipGetDevice(int* device) {
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
SHIM int hipDeviceSynchronize() {
  int code = begin();
  if (!code) code = remember(backend()->synchronize(current));
  if (!code) show_to_cpu();
  return code;
}
SHIM int hipDeviceEnablePeerAccess(int peer, unsigned) {
  static std::mutex mutex;
  static auto& enabled = *new std::set<std::pair<int, int>>;
  if (int code = begin()) return code;
  std::lock_guard lock(mutex);
  if (enabled.count({current, peer})) return remember(result::peer_access_already_enabled);
  int code = remember(backend()->enable_peer(current, peer));
  if (!code) enabled.insert({current, peer});
  return code;
}
