// SPDX-License-Identifier: Apache-2.0
//
// How long the pages of this machine are: 4 KiB on x86-64, and 4, 16 or 64 KiB on AArch64.

#pragma once

#include <unistd.h>

#include <cstddef>

namespace fairlead {

inline size_t page_size() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

inline size_t whole_pages(size_t bytes) {
  return (bytes + page_size() - 1) / page_size() * page_size();
}

}  // namespace fairlead
