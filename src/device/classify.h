// SPDX-License-Identifier: Apache-2.0
//
// Is this address device memory? Asked about every buffer of every MPI call, so the answer "no" must be
// nearly free: thread stacks, the heap below the program break and static data of the program can never
// become device memory, and are told apart without asking the driver. Everything else is asked anew each
// time, because an address may be host memory now and device memory after the next allocation; nothing
// about it is remembered. Never creates a context. Thread-safe.

#pragma once

#include <atomic>
#include <cstdint>

#include "device/runtime.h"

namespace fairlead::device {

namespace detail {
// From the start of the program's static data to the end of the heap, as far as that was seen: nothing else
// is mapped between the two. No bytes before the first question.
struct ProgramMemory {
  std::atomic<uintptr_t> begin = 0, bytes = 0;
};
extern constinit ProgramMemory program_memory;
bool found_to_be_host(uintptr_t address);
}  // namespace detail

// True only for addresses that stay host memory as long as the calling thread lives.
inline bool certainly_host(const void* address) {
  uintptr_t value = reinterpret_cast<uintptr_t>(address);
  const uintptr_t bytes = detail::program_memory.bytes.load(std::memory_order_acquire);
  return value - detail::program_memory.begin.load(std::memory_order_relaxed) < bytes ||
         detail::found_to_be_host(value);
}

// What the driver knows, managed memory as option `managed` says; MemoryKind::host where there is no driver.
// `allocation` may describe more than the buffer: it is the whole allocation the address lies in.
Allocation classify(const void* address);

// What was found at an address. Good for the call of MPI in which it was asked.
struct Found {
  const void* address = nullptr;
  Allocation memory{};
};
inline Allocation classify(const void* address, const Found& found) {
  return address && found.address == address ? found.memory : classify(address);
}

// Must the host not dereference this address? Asks unless `found` is about it, and keeps the answer there.
inline bool is_device_memory(const void* address, Found* found) {
  if (found->address != address)
    *found = {address, certainly_host(address) ? Allocation{} : classify(address)};
  return found->memory.kind == MemoryKind::device;
}
inline bool is_device_memory(const void* address) {
  return !certainly_host(address) && classify(address).kind == MemoryKind::device;
}

// The device whose memory this is; -1 for memory that the host may dereference.
inline int device_at(const void* address) {
  if (certainly_host(address)) return -1;
  Allocation allocation = classify(address);
  return allocation.kind == MemoryKind::device ? allocation.device : -1;
}

// Some device this process already uses, for copies between host memory and a peer; -1 if it uses none.
int device_in_use();

}  // namespace fairlead::device
