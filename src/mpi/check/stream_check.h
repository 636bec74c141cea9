// SPDX-License-Identifier: Apache-2.0
//
// FAIRLEAD_CHECK=streams: warns if the program passes a device buffer to MPI while its work is in flight on
// that device (M10). A kernel launch returns before the kernel has run, and MPI does not look at streams: the
// message may contain what was in the buffer before, or may arrive while a kernel still uses the buffer. One
// warning per process names each place in the program that makes such a call.
//
// The check queries the device, since no driver reports which memory a kernel writes; docs/use/debugging.md
// describes what the check detects and what it misses. Thread-safe; called without the engine's lock, in the
// user's call.

#pragma once

#include "base/options.h"

namespace fairlead::mpi {

enum class BufferUse { sent, received };

namespace detail {
void check_streams(int device, BufferUse use);
}

// Call this wherever bytes of a buffer on this device (-1: no device) may be read or written from then on.
inline void check_streams(int device, BufferUse use) {
  static const bool wanted = options().check.contains("streams");
  if (wanted) detail::check_streams(device, use);
}

}  // namespace fairlead::mpi
