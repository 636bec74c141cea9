// SPDX-License-Identifier: Apache-2.0
//
// Submits copies to streams of the library's. While streams of the program wait for this process, none may
// wait for the program's copies behind them (docs/design/driver-calls.md):
// - For a copy of pageable host memory the driver takes locks, which a thread of the program's may hold until
//   its stream has passed an operation: in a copy of the same kind, or in the first launch of a kernel. The
//   CPU carries the bytes to or from page-locked memory instead.
// - The driver has few queues of the hardware for each direction. One stream should carry all copies of a
//   direction, so that the program's streams find the others free.
// Not thread-safe: the caller serialises all calls.

#pragma once

#include <optional>

#include "device/blocking_driver_calls.h"
#include "device/runtime.h"

namespace fairlead::device {

// Allocates that page-locked memory, once in a process, before streams wait. Without it, the driver copies.
// Thread-safe.
void prepare_pageable_copies();

// May `device` copy between memory that it can access and this memory of `owner`, where -1 is the host? One
// device, or a device and the host: yes. Two devices: only if the memory is ordinary (other memory is
// accessible to one device only) and prepare_pageable_copies() was not called: without peer access, which is
// the program's to enable, the driver carries the bytes through pageable memory. Asks the driver only about
// two devices. Thread-safe.
bool may_copy_across(int device, int owner, const void* memory);

// Of memory that the CPU may access, at both ends.
void copy_by_cpu(const CopyItem& item);

// As Runtime::synchronize_stream(), in which some drivers may wait for a copy of pageable memory of another
// thread's (docs/design/driver-calls.md).
Error wait_by_queries(Stream stream);

// One call of the driver, for one copy or a batch. If no stream waits now, none can start to wait while this
// object exists.
class Submission {
 public:
  explicit Submission(const CopyItem& first);
  bool streams_wait() const { return !nothing_waits_; }
  // For calls that make something; null: not now.
  Runtime* allocating() const { return allocating_; }
  // May the copy be in a batch with the first?
  bool takes(const CopyItem& item) const { return !streams_wait() || route_of(item) == route_; }
  // While streams wait: copies with another number are in other streams.
  size_t direction() const { return static_cast<size_t>(route_.direction); }
  bool by_cpu() const { return route_.carried != Carried::by_driver; }
  // In a batch, no item has several rows. Waits for the copies if the CPU takes part in them.
  Error submit(const CopyItem* items, size_t count, Stream stream) const;

 private:
  enum class Direction : uint8_t { among_devices, in, out };
  enum class Carried : uint8_t { by_driver, to_host, from_host };  // the last two by the CPU
  struct Route {
    Direction direction = Direction::among_devices;
    Carried carried = Carried::by_driver;
    bool operator==(const Route&) const = default;
  };
  static Route route_of(const CopyItem& item);

  std::optional<BlockingDriverCalls> nothing_waits_;
  Runtime* allocating_ = nullptr;
  Route route_;  // of the first
};

}  // namespace fairlead::device
