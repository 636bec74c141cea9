// SPDX-License-Identifier: Apache-2.0
//
// Addresses in place of host memory that is not available, for a process that must pass buffers to the host
// MPI all the same because others wait for it. They can be read and written, but hold nothing: the same few
// MiB lie behind all of them. All users get the same addresses. Thread-safe.

#pragma once

#include <cstddef>

namespace fairlead {

// The two buffers of a call must not overlap.
enum class DummyFor { sent, received };

// Takes addresses while there are some: 64 MiB for each buffer. Costs no memory until dummy_memory() is used.
void reserve_dummy_memory();

// So many bytes, more than the reserve if they can be had. Null if not; they stay valid for ever.
unsigned char* dummy_memory(DummyFor buffer, size_t bytes);

// The same for one of several messages that are received at a time, of which others have the first `*taken`
// bytes, which grows. Its first page is memory of its own, zero at first.
unsigned char* dummy_memory_after(size_t* taken, size_t bytes);

}  // namespace fairlead
