// SPDX-License-Identifier: Apache-2.0
//
// FAIRLEAD_CHECK=streams: warns if the program passes a device buffer to MPI that its own work may still
// access (M10), or submits such work while an operation of MPI is under way. A kernel launch returns before
// the kernel has run, and MPI does not look at streams: the message may contain what was in the buffer
// before, or may arrive while a kernel still uses the buffer. One warning per process names each place in the
// program that makes such a call.
//
// device/program/work.h knows what the program has submitted and what it has waited for. Where that cannot be
// seen, the check asks the driver whether the device works. docs/use/debugging.md describes what the check
// detects and what it misses. Thread-safe; called without the engine's lock, in the user's call.

#pragma once

#include "base/options.h"
#include "device/program/work.h"
#include "mpi/datatype/layout.h"

namespace fairlead::mpi {

enum class BufferUse { sent, received };

namespace detail {
void check_streams(int device, const void* address, MPI_Count bytes, bool with_gaps, BufferUse use,
                   device::program::OpenBuffers* buffers);
}  // namespace detail

// While this exists, operations are started in the order of a GPU stream, not by the host, and need no check.
class StartedByStream {
 public:
  StartedByStream() { ++depth; }
  ~StartedByStream() { --depth; }
  StartedByStream(const StartedByStream&) = delete;
  StartedByStream& operator=(const StartedByStream&) = delete;
  static bool here() { return depth > 0; }

 private:
  static constinit thread_local int depth;
};

inline bool checks_streams() {
  static const bool wanted = device::program::wanted();
  return wanted && !StartedByStream::here();
}

// Call these wherever bytes of a buffer on this device (-1: no device) may be read or written from then on;
// with `buffers`, until these are closed.
inline void check_streams(int device, const void* address, const Layout& layout, BufferUse use,
                          device::program::OpenBuffers* buffers = nullptr) {
  if (checks_streams() && device >= 0 && layout.span > 0)
    detail::check_streams(device, at_offset(address, layout.first), layout.span, !layout.contiguous, use,
                          buffers);
}
// In MPI_Finalize: how many calls could not be judged.
void end_stream_check();

}  // namespace fairlead::mpi
