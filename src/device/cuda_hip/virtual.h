// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory management for drivers with a CUDA-like API: reserves address ranges and maps physical
// memory into them. The caller makes the right device current. Each function returns the outcome of the first
// driver call that failed; in that case it has released everything it had acquired. Thread-safe.

#pragma once

#include <algorithm>
#include <map>
#include <mutex>

#include "device/cuda_hip/abi.h"

namespace fairlead::device {

template <class Abi>
class VirtualMemory {
 public:
  explicit VirtualMemory(const Abi& api) : api_(api) {}

  // `handle_types`: how it may be shared.
  DriverOutcome allocate(const MemoryLocation& location, int handle_types, int device, size_t bytes,
                         void** address) {
    if (!api_.memory_create) return {api_.memory_create.symbol, driver_result::not_supported};
    const AllocationProperties properties{
        driver_flag::allocation_pinned, handle_types, location, nullptr, {}};
    size_t granularity = 0;
    DriverOutcome last =
        call(api_.memory_granularity, &granularity, &properties, int{driver_flag::granularity_minimum});
    if (!last) return last;
    Range range{(bytes + granularity - 1) / granularity * granularity, granularity * granules_per_piece};
    typename Abi::Address base{};
    last = reserve(range.size, &base);
    if (!last) return last;
    size_t mapped = 0;
    while (last && mapped < range.size) {
      size_t piece = range.piece_at(mapped);
      typename Abi::MemoryHandle handle{};
      last = call(api_.memory_create, &handle, piece, &properties, 0ull);
      if (last) last = map(at(base, mapped), piece, handle, device);
      if (last) mapped += piece;
    }
    if (!last) {
      release(base, range, mapped);
      return last;
    }
    *address = keep(base, range);
    return last;
  }

  // Returns a file descriptor of the physical memory mapped at this address.
  DriverOutcome share(const void* address, int* file) {
    long long made = -1;  // the driver writes either an int or the whole variable
    DriverOutcome last = share(address, driver_flag::handle_file_descriptor, &made);
    if (last) *file = static_cast<int>(made);
    return last;
  }
  // The same for a handle of any type.
  DriverOutcome share(const void* address, int handle_type, void* shared) {
    typename Abi::MemoryHandle handle{};
    DriverOutcome last = call(api_.memory_retain, &handle, const_cast<void*>(address));
    if (!last) return last;
    last = call(api_.memory_export, shared, handle, handle_type, 0ull);
    api_.memory_release(handle);
    return last;
  }

  // Maps `bytes` bytes of physical memory that another process has shared.
  DriverOutcome map_received(int device, int handle_type, void* shared, size_t bytes, void** address) {
    typename Abi::MemoryHandle handle{};
    typename Abi::Address base{};
    DriverOutcome last = call(api_.memory_import, &handle, shared, handle_type);
    if (!last) return last;
    last = reserve(bytes, &base);
    if (!last) {
      api_.memory_release(handle);
      return last;
    }
    Range range{bytes, bytes};
    last = map(base, bytes, handle, device);
    if (last)
      *address = keep(base, range);
    else
      release(base, range, 0);
    return last;
  }

  // Returns whether allocate() or adopt() created the range that starts here.
  bool owns(void* address) {
    std::lock_guard lock(mutex_);
    return ranges_.count(address) != 0;
  }

  DriverOutcome free(void* address) {
    std::unique_lock lock(mutex_);
    Range range = ranges_.at(address);
    ranges_.erase(address);
    lock.unlock();
    return release(Abi::to_driver(address), range, range.size);
  }

 private:
  static constexpr size_t granules_per_piece = 10;  // 20 MiB where a granule is 2 MiB

  struct Range {
    size_t size, piece;
    size_t piece_at(size_t offset) const { return std::min(piece, size - offset); }
  };

  template <class... Parameters, class... Arguments>
  static DriverOutcome call(const DriverFunction<int(Parameters...)>& function, Arguments... arguments) {
    return {function.symbol, function(arguments...)};
  }

  DriverOutcome reserve(size_t bytes, typename Abi::Address* base) {
    return call(api_.address_reserve, base, bytes, size_t{0}, typename Abi::Address{}, 0ull);
  }

  void* keep(typename Abi::Address base, const Range& range) {
    std::lock_guard lock(mutex_);
    ranges_[(void*)(base)] = range;
    return (void*)(base);
  }

  static typename Abi::Address at(typename Abi::Address base, size_t offset) {
    return Abi::to_driver((const char*)(base) + offset);
  }

  // Releases the handle: once mapped, the mapping keeps the memory alive.
  DriverOutcome map(typename Abi::Address address, size_t bytes, typename Abi::MemoryHandle handle,
                    int device) {
    const MemoryAccess access{{driver_flag::location_device, device}, driver_flag::access_read_write};
    DriverOutcome last = call(api_.memory_map, address, bytes, size_t{0}, handle, 0ull);
    api_.memory_release(handle);
    if (!last) return last;
    last = call(api_.memory_access, address, bytes, &access, size_t{1});
    if (!last) api_.memory_unmap(address, bytes);
    return last;
  }

  // The driver unmaps only whole mappings, each of which one call created.
  DriverOutcome release(typename Abi::Address base, const Range& range, size_t mapped) {
    DriverOutcome last;
    for (size_t offset = 0; last && offset < mapped; offset += range.piece_at(offset))
      last = call(api_.memory_unmap, at(base, offset), range.piece_at(offset));
    return last ? call(api_.address_free, base, range.size) : last;
  }

  const Abi& api_;
  std::mutex mutex_;
  std::map<void*, Range> ranges_;
};

}  // namespace fairlead::device
