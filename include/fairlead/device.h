/* SPDX-License-Identifier: Apache-2.0
 *
 * Portable device memory for examples, benchmarks and tests: one C program runs on NVIDIA (CUDA driver),
 * AMD (HIP) and simulated GPUs, selected at run time. Link with fairlead::device; no vendor SDK is needed.
 *
 * Its use is optional: Fairlead supports pointers from cudaMalloc and hipMalloc in the same way.
 *
 * Every function returns FAIRLEAD_DEVICE_SUCCESS (0) or an error code, whose message
 * fairlead_device_error_text() returns for the calling thread. All functions are thread-safe. As in the
 * CUDA and HIP runtimes, the current device belongs to the calling thread and is 0 at first.
 * Sizes are in bytes.
 */
#ifndef FAIRLEAD_DEVICE_H
#define FAIRLEAD_DEVICE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAIRLEAD_DEVICE_SUCCESS 0

/* "cuda", "rocm", "sim", or "none". */
const char* fairlead_device_provider(void);
/* Message of the last call of this thread that failed; "no error" if none has. */
const char* fairlead_device_error_text(void);

/* Number of devices this process sees; 0 when there is no provider. */
int fairlead_device_count(void);
int fairlead_device_set(int device);
int fairlead_device_get(int* device);
/* Human-readable name of a device ("NVIDIA H200"), "" if there is no such device. */
const char* fairlead_device_name(int device);
/* PCI address ("0000:1b:00.0") or "" */
const char* fairlead_device_pci(int device);

/* The kinds of memory that an application may pass to MPI. */
enum fairlead_device_memory {
  FAIRLEAD_MEMORY_DEVICE,  /* cudaMalloc, hipMalloc */
  FAIRLEAD_MEMORY_PINNED,  /* page-locked host memory: cudaMallocHost, hipHostMalloc */
  FAIRLEAD_MEMORY_MANAGED, /* both the host and the device may dereference it */
  FAIRLEAD_MEMORY_POOL,    /* stream-ordered: cudaMallocAsync, hipMallocAsync */
  FAIRLEAD_MEMORY_VIRTUAL  /* virtual memory management in pieces, as expandable segments: cuMemCreate */
};
/* Allocates memory of the current device; pinned memory serves all devices. fairlead_device_free() frees it,
 * fairlead_device_free_host() frees pinned memory. Not every GPU supports every kind. */
int fairlead_device_allocate(void** address, size_t bytes, enum fairlead_device_memory kind);

/* Allocates memory of the current device. The host must not dereference it. */
int fairlead_device_malloc(void** address, size_t bytes);
/* Allocates memory that both the host and the device may dereference. */
int fairlead_device_malloc_managed(void** address, size_t bytes);
/* Frees memory of every kind except pinned; null is allowed. */
int fairlead_device_free(void* address);
/* Allocates page-locked host memory. */
int fairlead_device_malloc_host(void** address, size_t bytes);
int fairlead_device_free_host(void* address);

/* Copies between any two kinds of memory and returns after the bytes have arrived. */
int fairlead_device_copy(void* to, const void* from, size_t bytes);
/* Sets every byte and returns after completion. */
int fairlead_device_fill(void* to, int byte, size_t bytes);
/* Waits for all work submitted to the current device. */
int fairlead_device_synchronize(void);

/* Launches a kernel that fairlead_add_device_code() (CMake) embedded in this program, by its name, as a
 * one-dimensional grid of `grid` blocks of `block` threads on the current device. `arguments` points to
 * one pointer per kernel parameter. Returns at once; fairlead_device_synchronize() waits for it. */
int fairlead_device_launch(const char* kernel, unsigned grid, unsigned block, void** arguments);

#ifdef __cplusplus
}
#endif
#endif
