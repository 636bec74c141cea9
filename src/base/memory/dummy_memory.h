// SPDX-License-Identifier: Apache-2.0
//
// Addresses in place of host memory that is not available, for a process that must pass buffers to the host
// MPI all the same because others wait for it. They can be read and written, but hold nothing: the same few
// MiB lie behind all of them. Thread-safe.

#pragma once

#include <cstddef>

namespace fairlead {

// The two buffers of a call must not overlap, nor blocks that are messages of their own.
enum class DummyFor { sent, received, block };

// Takes addresses while there are some: 64 MiB for each buffer. Costs no memory until dummy_memory() is used.
void reserve_dummy_memory();

// So many bytes, more than the reserve if they can be had, the same addresses for all users. Null if not;
// they stay valid for ever.
unsigned char* dummy_memory(DummyFor buffer, size_t bytes);

// The same for a message that is received, with addresses of its own until it is given back. Its first page
// is memory, zero at first.
unsigned char* dummy_memory_for_block(size_t bytes);
void give_back_dummy_block();

}  // namespace fairlead
