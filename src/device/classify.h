// SPDX-License-Identifier: Apache-2.0
//
// Is this address device memory? Asked about every buffer of every MPI call, so the answer "no" must be
// nearly free: thread stacks, the heap below the program break and static data of the program can never
// become device memory, and are told apart without asking the driver. Everything else is asked anew each
// time, because an address may be host memory now and device memory after the next allocation; nothing
// about it is remembered. Never creates a context. Thread-safe.

#pragma once

#include "device/runtime.h"

namespace fairlead::device {

// True only for addresses that stay host memory as long as the calling thread lives.
bool certainly_host(const void* address);

// What the driver knows, managed memory as option `managed` says; MemoryKind::host where there is no driver.
// `allocation` may describe more than the buffer: it is the whole allocation the address lies in.
Allocation classify(const void* address);

// Must the host not dereference this address?
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
