// SPDX-License-Identifier: Apache-2.0
//
// The device memory in which sends are buffered whose receiver is late: one slab of FAIRLEAD_BUFFER_POOL
// bytes on each device that sends, allocated at its first use, so that peers map it once. Its first bytes hold
// the proof (see src/transport/peer.h). Thread-safe.

#pragma once

#include <cstddef>

#include "device/runtime.h"

namespace fairlead::device {

constexpr size_t pool_probe_bytes = 256;

// The slab of `device`, made if there is none yet; null when it cannot be had.
void* pool_slab(int device);

// Null when the pool is full (or off): the caller buffers in host memory then.
void* pool_allocate(int device, size_t bytes);
void pool_free(void* address);
size_t pool_bytes_in_use();
// Gives the slabs back; nothing may be allocated in them.
void pool_release();

}  // namespace fairlead::device
