// SPDX-License-Identifier: Apache-2.0
//
// Classifies an address as host or device memory. Fairlead classifies every buffer of every MPI call, so
// recognising host memory must be nearly free: thread stacks, the heap below the program break and the
// program's static data can never become device memory, and no driver call is necessary for them. Every other
// address is queried from the driver each time and nothing is cached, because an address that is host memory
// now may be device memory after the next allocation. Never creates a context. Thread-safe.

#pragma once

#include <atomic>
#include <cstdint>

#include "device/runtime.h"

namespace fairlead::device {

namespace detail {
// Ranges from the start of the program's static data to the highest heap end observed so far; nothing else is
// mapped in between. Empty before the first query.
struct ProgramMemory {
  std::atomic<uintptr_t> begin = 0, bytes = 0;
};
extern constinit ProgramMemory program_memory;
bool found_to_be_host(uintptr_t address);
}  // namespace detail

// Returns true only for addresses that stay host memory for the lifetime of the calling thread.
inline bool certainly_host(const void* address) {
  uintptr_t value = reinterpret_cast<uintptr_t>(address);
  const uintptr_t bytes = detail::program_memory.bytes.load(std::memory_order_acquire);
  return value - detail::program_memory.begin.load(std::memory_order_relaxed) < bytes ||
         detail::found_to_be_host(value);
}

// Returns the driver's description of an address; option `managed` decides how managed memory counts. Without
// a driver the kind is MemoryKind::host. The result describes the whole allocation that contains the address,
// which may be larger than the buffer.
Allocation classify(const void* address);

// The classification of one address, to be used again within the same MPI call.
struct Found {
  const void* address = nullptr;
  Allocation memory{};
};
inline Allocation classify(const void* address, const Found& found) {
  return address && found.address == address ? found.memory : classify(address);
}

// Returns true if the host must not dereference this address. Uses `found` if it describes the address, else
// classifies the address and stores the result there.
inline bool is_device_memory(const void* address, Found* found) {
  if (found->address == address) return found->memory.kind == MemoryKind::device;
  found->address = address;
  // Not by a conditional expression: its temporary, stored in parts and read as a whole, costs host memory 8
  // ns.
  if (certainly_host(address)) {
    found->memory = {};
    return false;
  }
  found->memory = classify(address);
  return found->memory.kind == MemoryKind::device;
}
inline bool is_device_memory(const void* address) {
  return !certainly_host(address) && classify(address).kind == MemoryKind::device;
}

// Returns the device that owns this memory; -1 for memory that the host may dereference.
inline int device_at(const void* address) {
  if (certainly_host(address)) return -1;
  Allocation allocation = classify(address);
  return allocation.kind == MemoryKind::device ? allocation.device : -1;
}

// The devices whose memory was classified, one bit for each.
uint64_t devices_seen();

// Returns a device that this process already uses, for copies between host memory and a peer: the device set
// by set_device_of_progress(); otherwise, in a thread of the program, the current device; in a thread of the
// library, whose current device is always 0, the device of the memory classified last. -1 if none.
int device_in_use();
// The device must have copy streams: while streams wait, none can be made for another.
void set_device_of_progress(int device);

}  // namespace fairlead::device
