// SPDX-License-Identifier: Apache-2.0
//
// The releases from which on HIP has a behaviour that Fairlead depends on. Numbers are those of
// hipDriverGetVersion(): 70226015 is 7.2. README.md lists the sources.

#pragma once

namespace fairlead::device::hip_release {

constexpr int release(int major, int minor) {
  return major * 10000000 + minor * 100000;
}

// ROCr spreads copies between two GPUs over several engines, as many as it has noted for the pair; it notes
// none for a GPU that this process does not see, and then never makes the copy.
inline constexpr int spreads_copies = release(6, 1);

// hipStreamLegacy names the default stream in all functions.
inline constexpr int has_legacy_stream = release(6, 3);

// hipMemImportFromShareableHandle() takes the file descriptor itself, not a pointer to it.
inline constexpr int imports_by_value = release(7, 1);

// hipMemRetainAllocationHandle() adds the reference that hipMemRelease() removes. In earlier releases each
// export of virtual memory consumed one of the program's references, so the runtime freed memory still in
// use.
inline constexpr int retains = release(7, 12);

}  // namespace fairlead::device::hip_release
