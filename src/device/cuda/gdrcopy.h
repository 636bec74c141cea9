// SPDX-License-Identifier: Apache-2.0
//
// CPU mappings of NVIDIA device memory through the gdrcopy library (libgdrapi.so.2 and its kernel driver),
// opened at run time if installed. A page is mapped only after several requests, because pinning it costs
// more than many copies. The driver's allocation id reveals that memory was freed, and its mappings are
// dropped. Thread-safe.

#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

#include "device/cuda_hip/abi.h"
#include "device/runtime.h"

namespace fairlead::device {

class Gdrcopy {
 public:
  // Returns null if the library or its driver is not available.
  static Gdrcopy* open();

  // Returns the CPU's address of `bytes` bytes at `address` inside `allocation`, or null.
  void* map(const Allocation& allocation, const void* address, size_t bytes);

 private:
  using Library = struct GdrcopyLibrary*;
  struct Handle {
    unsigned long number;
  };
  struct Page {
    uintptr_t start;
    uint64_t allocation;
    int asked = 0;
    bool refused = false;
    Handle handle{};
    char* mapped = nullptr;
  };

  Page& find(uintptr_t start, uint64_t allocation);
  void pin(Page& page);
  void unpin(Page& page);

  // The interface of version 2 of the library.
  DriverFunction<Library()> open_{"gdr_open"};
  DriverFunction<int(Library, unsigned long, size_t, uint64_t, uint32_t, Handle*)> pin_{"gdr_pin_buffer"};
  DriverFunction<int(Library, Handle)> unpin_{"gdr_unpin_buffer"};
  DriverFunction<int(Library, Handle, void**, size_t)> map_{"gdr_map"};
  DriverFunction<int(Library, Handle, void*, size_t)> unmap_{"gdr_unmap"};

  Library library_ = nullptr;
  std::mutex mutex_;
  std::list<Page> pages_;  // most recently used first
};

}  // namespace fairlead::device
