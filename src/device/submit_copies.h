// SPDX-License-Identifier: Apache-2.0
//
// Submits copies to a stream of the library's. Copies of pageable host memory are the driver's as a rule. It
// takes locks for them, however, which a thread of the program's may hold until a stream has passed an
// operation: in a copy of the same kind, or in the first launch of a kernel (docs/design/streams.md, "What
// drivers do"). While streams wait for this process, the CPU therefore carries the bytes to or from
// page-locked memory. Not thread-safe: the caller serialises all calls.

#pragma once

#include "device/runtime.h"

namespace fairlead::device {

// Allocates that page-locked memory, once in a process, before streams wait. Without it, the driver copies.
void prepare_pageable_copies();

// May one copy have its ends in memory of these devices, or of the host (-1)? No for two devices once
// prepare_pageable_copies() was called: without peer access, which is the program's to enable, the driver
// carries the bytes through pageable memory. Thread-safe.
bool may_copy_across(int one, int other);

// Of memory that the CPU may access, at both ends.
void copy_by_cpu(const CopyItem& item);

// As Runtime::synchronize_stream(), in which some drivers may wait for a copy of pageable memory of another
// thread's (docs/design/streams.md, "What drivers do").
Error wait_by_queries(Stream stream);

// In a batch, no item has several rows. Waits for those that the CPU takes part in.
Error submit_copies(const CopyItem* items, size_t count, Stream stream);

}  // namespace fairlead::device
