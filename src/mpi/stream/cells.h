// SPDX-License-Identifier: Apache-2.0
//
// Cells of page-locked memory, through which streams and the CPU talk. They are never freed: the driver's
// call that frees such memory waits for all streams, and a stream may still read a cell after the CPU has
// written to it for the last time. Thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>

namespace fairlead::mpi {

// Eight bytes that are zero, for streams of this device, or null if there is no memory. Kernels find them at
// Runtime::address_for_kernels(). Must not be called in a thread that makes progress: the driver may make it
// wait (device/blocking_driver_calls.h).
uint64_t* take_cell(int device);
// No stream may use it any more. Accepts null.
void give_back_cell(uint64_t* cell);
size_t cells_in_use();
// Has the device been reset since? Then no stream can use the cell; the CPU can.
bool cell_is_gone(const void* cell);

}  // namespace fairlead::mpi
