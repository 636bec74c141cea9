// SPDX-License-Identifier: Apache-2.0
//
// Copies of a few bytes between device and ordinary host memory, for messages whose cost is latency alone.
// They pass through page-locked slots; on the way to the host, their arrival is seen in the slot itself,
// which is several microseconds earlier than the stream can tell. Thread-safe.

#pragma once

#include <cstddef>

#include "device/copy.h"

namespace fairlead::device {

constexpr size_t small_copy_bytes = 4096;  // larger copies do not gain

// At most small_copy_bytes bytes. Falls back to copy_now() where there is no page-locked memory.
Error copy_small_to_host(int device, void* to, const void* from, size_t bytes);
Error copy_small_to_device(int device, void* to, const void* from, size_t bytes);

}  // namespace fairlead::device
