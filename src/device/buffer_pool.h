// SPDX-License-Identifier: Apache-2.0
//
// Device memory that buffers a send whose receiver is late: one slab of FAIRLEAD_POOLS bytes on each
// sending device. The first use allocates the slab, so that peers map it once. Its first bytes serve the
// peer-access probe (see src/transport/peer.h): some for peers to read, and behind them some for peers to
// write. Thread-safe.

#pragma once

#include <cstddef>

#include "device/runtime.h"

namespace fairlead::device {

constexpr size_t pool_read_bytes = 256, pool_written_bytes = size_t{64} << 10;
constexpr size_t pool_probe_bytes = pool_read_bytes + pool_written_bytes;

// Returns the slab of `device` and allocates it if necessary; null if no memory is available.
void* pool_slab(int device);

// Returns null if the pool is full or disabled; the caller then buffers in host memory.
void* pool_allocate(int device, size_t bytes);
void pool_free(void* address);
// The most that pool_allocate() would give now.
size_t pool_room(int device);
// Is its memory that of Runtime::allocate_for_peers()?
bool pool_is_for_peers(int device);
size_t pool_bytes_in_use();
// Frees all slabs. The caller must have freed every piece.
void pool_release();

}  // namespace fairlead::device
