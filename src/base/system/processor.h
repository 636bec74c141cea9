// SPDX-License-Identifier: Apache-2.0
//
// What differs between processors (x86-64 and AArch64): cache lines, addresses, folders, how loops poll, a
// counter of time, and the order of accesses to device memory. base/memory/page_size.h has pages,
// base/system/imported_symbols.cpp relocations.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace fairlead {

// Words that different cores write lie in different cache lines. Addresses of programs have so many bits,
// unless they ask for more. The folder is where Debian has libraries, below a prefix.
#if defined(__x86_64__)
constexpr size_t cache_line = 64;
constexpr int address_bits = 47;
constexpr const char* multiarch_folder = "lib/x86_64-linux-gnu";
constexpr bool cpu_caches_device_memory = false;
#elif defined(__aarch64__)
constexpr size_t cache_line = 128;  // the longest of usual processors
constexpr int address_bits = 48;
constexpr const char* multiarch_folder = "lib/aarch64-linux-gnu";
constexpr bool cpu_caches_device_memory = true;  // over NVLink-C2C it may, over PCIe it does not
#else
#error "Fairlead is for x86-64 and AArch64"
#endif

// Between two looks of a loop that polls.
inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("yield" ::: "memory");
#endif
}

// Runs at one rate on all cores.
inline uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  uint64_t now;
  asm volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#endif
}

// How many ticks take about so long. x86-64 does not say; its usual processors do not differ by more than a
// factor of two.
inline uint64_t ticks_in(std::chrono::microseconds time) {
  const auto microseconds = static_cast<uint64_t>(time.count());
#if defined(__x86_64__)
  return microseconds * 2500;
#else
  uint64_t per_second;
  asm("mrs %0, cntfrq_el0" : "=r"(per_second));
  return microseconds * per_second / 1'000'000;
#endif
}

// Waits until what this thread has stored to memory of a device has left the processor.
inline void flush_device_stores() {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#else
  asm volatile("dsb st" ::: "memory");
#endif
}

}  // namespace fairlead
