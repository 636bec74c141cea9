// SPDX-License-Identifier: Apache-2.0

#include "device/copies/bar.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>

#include "base/log.h"
#include "base/options.h"
#include "base/system/processor.h"
#include "device/blocking_driver_calls.h"
#include "device/copies/small_copy.h"

namespace fairlead::device {
namespace {

constexpr size_t measured_sizes[] = {8, 32, 64, 128, 256, 512, 1024, 2048, small_copy_bytes};
constexpr int trials = 12;

// The largest sizes in bytes for which the CPU is faster than the copy engine; 0: it never is.
struct Limits {
  size_t read = 0, write = 0;
};

void load(void* to, const void* mapped, size_t bytes) {
  std::memcpy(to, mapped, bytes);
}

void store(void* mapped, const void* from, size_t bytes) {
  std::memcpy(mapped, from, bytes);
  flush_device_stores();
  (void)static_cast<const volatile unsigned char*>(mapped)[bytes - 1];
}

// Returns the shortest time of several trials, after one warm-up trial that does not count.
template <class Work>
auto fastest(Work work) {
  auto best = std::chrono::steady_clock::duration::max();
  for (int trial = 0; trial <= trials; ++trial) {
    auto start = std::chrono::steady_clock::now();
    work();
    auto took = std::chrono::steady_clock::now() - start;
    if (trial > 0) best = std::min(best, took);
  }
  return best;
}

// Some providers map memory only after several requests.
void* insistently_mapped(void* memory) {
  for (int attempt = 0; attempt < 100; ++attempt)
    if (void* mapped = runtime()->cpu_mapping(memory, small_copy_bytes)) return mapped;
  return nullptr;
}

// None: not now.
std::optional<Limits> measure(int device, const SmallCopies& engine) {
  Limits limits;
  void* memory = nullptr;
  {
    const BlockingDriverCalls calls;
    if (!calls.may_allocate()) return std::nullopt;
    if (calls->allocate(device, small_copy_bytes, &memory) != Error::none) return limits;
  }
  if (void* mapped = insistently_mapped(memory)) {
    unsigned char host[small_copy_bytes] = {};
    for (size_t bytes : measured_sizes) {
      if (fastest([&] { load(host, mapped, bytes); }) <
          fastest([&] { engine.to_host(device, host, memory, bytes); }))
        limits.read = bytes;
      if (fastest([&] { store(mapped, host, bytes); }) <
          fastest([&] { engine.to_device(device, memory, host, bytes); }))
        limits.write = bytes;
    }
    log_line(LogLevel::info, "the CPU reads up to %zu and writes up to %zu bytes of device %d itself",
             limits.read, limits.write, device);
  }
  // The function does not free the memory: that would wait for all work on the device, including the
  // program's kernels.
  return limits;
}

Limits limits_of(int device, const SmallCopies& engine) {
  if (options().bar == "off") return {};
  if (options().bar == "on") return {small_copy_bytes, small_copy_bytes};
  static std::mutex mutex;
  static auto& known = *new std::map<int, Limits>;
  std::lock_guard lock(mutex);
  if (auto found = known.find(device); found != known.end()) return found->second;
  const std::optional<Limits> measured =
      runtime()->cpu_stores_are_ordered(device) ? measure(device, engine) : Limits{};
  return measured ? known[device] = *measured : Limits{};
}

}  // namespace

bool bar_read(int device, void* to, const void* from, size_t bytes, const SmallCopies& engine) {
  if (bytes == 0 || bytes > limits_of(device, engine).read) return false;
  void* mapped = runtime()->cpu_mapping(from, bytes);
  if (mapped) load(to, mapped, bytes);
  return mapped != nullptr;
}

bool bar_write(int device, void* to, const void* from, size_t bytes, const SmallCopies& engine) {
  if (bytes == 0 || bytes > limits_of(device, engine).write) return false;
  void* mapped = runtime()->cpu_mapping(to, bytes);
  if (mapped) store(mapped, from, bytes);
  return mapped != nullptr;
}

}  // namespace fairlead::device
