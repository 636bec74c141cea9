// SPDX-License-Identifier: Apache-2.0
//
// A libamdhip64.so for tests: each function of HIP that Fairlead uses, and the few of ROCr, done by another
// provider of Fairlead, so that the ROCm provider runs without an AMD GPU. It does what ROCm does where that
// differs from CUDA and from what one would like (behaviour.h): hence hostile. What would harm a machine, as
// opening a handle of virtual memory, ends the process with a line that says so.
//
//   TEST_ROCM_OVER   sim (default) or cuda: who does the work
//   TEST_ROCM_FAULTS   faults, separated by commas: ipc_fails (hipIpcGetMemHandle refuses all memory, as in
//                      containers without the right kernel), partitions (all GPUs have one PCI address and
//                      one UUID), copies_stick (long copies of device memory to other processes never end)
//   ROCR_VISIBLE_DEVICES   as ROCr has it, numbers only
//
// Found through LD_LIBRARY_PATH, with FAIRLEAD_DEVICE=rocm. Thread-safe, as HIP is.

#pragma once

#include <cstddef>
#include <cstdint>

#include "behaviour.h"
#include "device/hip/abi.h"
#include "device/program/hip_abi.h"
#include "device/runtime.h"

#define SHIM extern "C" __attribute__((visibility("default")))
// A function that programs call through a table, as all of HIP from ROCm 6.2 on. HIP itself calls
// name##_itself.
#define DISPATCHED(name, parameters, arguments)                                                              \
  static int name##_itself parameters;                                                                       \
  static const hostile::Entry name##_entry(hostile::place_##name, reinterpret_cast<void*>(name##_itself));   \
  SHIM int name parameters {                                                                                 \
    return reinterpret_cast<decltype(&name##_itself)>(hostile::dispatched(hostile::place_##name)) arguments; \
  }                                                                                                          \
  static int name##_itself parameters

namespace hostile {

namespace result = fairlead::device::driver_result;
using fairlead::device::Allocation;
using fairlead::device::Error;
using fairlead::device::HipAbi;
using fairlead::device::IpcHandle;
using fairlead::device::MemoryKind;
using fairlead::device::Runtime;

enum Place : size_t {
#define FAIRLEAD_HIP_CALL(function, number, ...) place_##function = number,
#define FAIRLEAD_HIP_CODE FAIRLEAD_HIP_CALL
#include "device/program/hip_calls.def"
#undef FAIRLEAD_HIP_CALL
#undef FAIRLEAD_HIP_CODE
  place_hipGetDevice = fairlead::device::program::hip::get_device
};
struct Entry {
  Entry(Place place, void* function);
};
void* dispatched(Place place);
using fairlead::device::program::hip::Dim3;

// What the compiler's constructors call, through a table of its own.
const void** register_binary(const fairlead::device::program::hip::Binary* binary);
void register_function(const void** module, const void* function, char*, const char* name, unsigned, void*,
                       void*, void*, void*, int*);
void unregister_binary(const void** module);

// Who does the work; null where it has no device.
Runtime* backend();
bool over_sim();
bool has_fault(const char* name);
[[noreturn]] void die(const char* what);

// Every call of HIP comes here first: initialises, and gives success or the result to return.
int begin();
// Devices are those of the provider below, which HIP numbers among those that are visible.
int device();                // the current one of this thread
int ordinal_of(int device);  // -1: it is hidden
// The program has made memory or work there.
void note_active(int device);
int remember(int code);
int remember(Error error);

Allocation query(const void* address);

// The GPU sees page-locked memory at another address than the host. Returns other addresses unchanged.
void* at_host(void* address);

// Virtual memory, also that of the pools.
bool is_virtual(const void* start);
// The device where the virtual memory lies that is mapped here.
int location_of(const void* start, int otherwise);
void forget_pool_memory(const void* start);
bool is_imported(const void* start);
// Memory that only ROCr knows.
bool is_of_rocr(const void* start);
// Who owns memory of another process; the device of other memory.
int owner_of(const Allocation& memory);
// Makes a reference to the physical memory that is mapped exactly here; null: there is none.
void* retain_physical(const void* start);
void release_physical(void* physical);

// Ends what hipDeviceReset() ends: streams and memory, with one visible device also page-locked memory. Ends
// events and kernels as well, which AMD's leaves alone: nobody should rely on that. Whoever uses something
// that has ended ends the process.
void end_streams_of(int device);
void end_memory_of(int device);
void end_virtual_memory_of(int device);

// Memory that is not coherent: what the CPU has stored is made visible to the GPU, and the other way round.
void show_to_gpu();
void show_to_cpu();

}  // namespace hostile
