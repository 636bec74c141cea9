// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <time.h>

#include <cstdint>

namespace fairlead::flight {

// In ns. The time of the last tick of the kernel, which costs less than the time stamp counter where machines
// are virtual, and is the same in all namespaces.
inline uint64_t time_of_tick() {
  timespec time;
  clock_gettime(CLOCK_REALTIME_COARSE, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace fairlead::flight
