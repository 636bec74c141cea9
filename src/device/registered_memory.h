// SPDX-License-Identifier: Apache-2.0
//
// Host memory that processes share and that this one has registered with its driver: copies to and from it
// are as fast as from page-locked memory, and its GPUs can store words to it. Memory stays registered until
// MPI_Finalize, or until the program resets the device; both functions then register it anew. Belongs to one
// thread at a time (the engine's lock).

#pragma once

#include <cstddef>

namespace fairlead::device {

// Registers memory, whose address and length are whole pages, unless it is registered. False: the driver has
// refused, which the log says once, or calls that make something are not permitted now
// (blocking_driver_calls.h).
bool register_memory(void* start, size_t bytes);
// Where kernels of this device find the start of memory; null: it is not registered, or they do not.
void* registered_for_kernels(int device, void* start);
// All that this process has registered, in bytes.
size_t registered_bytes();
// Called in MPI_Finalize: nothing on a GPU uses the memory any more.
void unregister_memory();

}  // namespace fairlead::device
