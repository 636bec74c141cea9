// SPDX-License-Identifier: Apache-2.0
//
// FAIRLEAD_CHECK=streams: a device buffer is handed to MPI while work of the program is in flight on its
// device (M10). A kernel launch returns before the kernel has run, and MPI does not look at streams: the
// message may hold what was in the buffer before, or a kernel may meet a message that it does not expect yet.
// Each place of the program that makes such a call is named in one warning per process.
//
// The check asks about the device, since no driver tells which memory a kernel writes: docs/debugging.md says
// what it sees and what it does not. Thread-safe; called without the engine's lock, in the user's call.

#pragma once

#include "base/options.h"

namespace fairlead::mpi {

enum class BufferUse { sent, received };

namespace detail {
void check_streams(int device, BufferUse use);
}

// Wherever bytes of a buffer on this device (-1: of none) may be read or written from now on.
inline void check_streams(int device, BufferUse use) {
  static const bool wanted = options().check.contains("streams");
  if (wanted) detail::check_streams(device, use);
}

}  // namespace fairlead::mpi
