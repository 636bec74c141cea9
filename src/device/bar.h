// SPDX-License-Identifier: Apache-2.0
//
// Transport `bar`: where the CPU can load and store device memory (gdrcopy, a large BAR, the simulated GPU),
// it copies a few bytes itself, which takes less than asking a copy engine. Reads are uncached and slow,
// writes are combined, so each has its own limit; both are measured against the copy engine at the first use
// of a device, or set by option `bar`. Has run on no real hardware so far. Thread-safe.
//
// What is written is there for every kernel launched after the call: the stores are fenced, and the last of
// them is read back, which does not return before they have reached the device.

#pragma once

#include <cstddef>

#include "device/runtime.h"

namespace fairlead::device {

// The way the CPU's is compared with.
struct SmallCopies {
  Error (*to_host)(int device, void* to, const void* from, size_t bytes);
  Error (*to_device)(int device, void* to, const void* from, size_t bytes);
};

// False when a copy engine should do it.
bool bar_read(int device, void* to, const void* from, size_t bytes, const SmallCopies& engine);
bool bar_write(int device, void* to, const void* from, size_t bytes, const SmallCopies& engine);

}  // namespace fairlead::device
