// SPDX-License-Identifier: Apache-2.0
//
// Transport `bar`: where the CPU can load and store device memory (gdrcopy, a large BAR, coherent memory, the
// simulated GPU), it copies small sizes itself, which is faster than a copy engine. Behind a bus, reads are
// uncached and slow, and writes are combined, so each direction has its own size limit. Fairlead measures
// both limits against the copy engine at the first use of a device; option `bar` overrides them. Not tested
// on real hardware so far. Thread-safe.
//
// Every kernel launched after a write returns sees the bytes: the function fences the stores and reads the
// last one back, and that read does not return before the stores have reached the device.

#pragma once

#include <cstddef>

#include "device/runtime.h"

namespace fairlead::device {

// The copy-engine functions that the CPU's copies are measured against.
struct SmallCopies {
  Error (*to_host)(int device, void* to, const void* from, size_t bytes);
  Error (*to_device)(int device, void* to, const void* from, size_t bytes);
};

// Returns false if the caller must use a copy engine.
bool bar_read(int device, void* to, const void* from, size_t bytes, const SmallCopies& engine);
bool bar_write(int device, void* to, const void* from, size_t bytes, const SmallCopies& engine);

}  // namespace fairlead::device
