// SPDX-License-Identifier: Apache-2.0
//
// From which release on HIP does what Fairlead needs of it, once. Numbers are those of hipDriverGetVersion():
// 70226015 is 7.2. docs/amd.md has the sources.

#pragma once

namespace fairlead::device::hip_release {

constexpr int release(int major, int minor) {
  return major * 10000000 + minor * 100000;
}

// hipMemImportFromShareableHandle() takes the file descriptor itself, not a pointer to it.
inline constexpr int imports_by_value = release(7, 1);

// hipMemRetainAllocationHandle() adds the reference that hipMemRelease() takes away. Before, each export of
// virtual memory took one of the program's, so that its memory was freed under it.
inline constexpr int retains = release(7, 12);

}  // namespace fairlead::device::hip_release
