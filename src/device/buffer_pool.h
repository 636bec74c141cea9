// SPDX-License-Identifier: Apache-2.0
//
// The device memory in which sends are buffered whose receiver is late: one slab of FAIRLEAD_BUFFER_POOL
// bytes per process, allocated at its first use on the device of that message, so that peers map it once.
// Its first bytes hold the proof (see src/transport/peer.h). Thread-safe.

#pragma once

#include <cstddef>

#include "device/runtime.h"

namespace fairlead::device {

constexpr size_t pool_proof_bytes = 256;

// The slab, made on `device` if there is none yet; null when it cannot be had.
void* pool_slab(int device);
int pool_device();  // of the slab, -1 when there is none

// Null when the pool is full (or off): the caller buffers in host memory then.
void* pool_allocate(int device, size_t bytes);
void pool_free(void* address);
size_t pool_bytes_in_use();
// Gives the slab back; nothing may be allocated in it.
void pool_release();

}  // namespace fairlead::device
