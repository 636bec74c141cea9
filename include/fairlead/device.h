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
/* Not an error: what was asked about has not completed yet. */
#define FAIRLEAD_DEVICE_NOT_READY 1

/* "cuda", "rocm", "sim", or "none". */
const char* fairlead_device_provider(void);
/* Message of the last call of this thread that failed; "no error" if none has. */
const char* fairlead_device_error_text(void);

/* Number of devices this process sees; 0 when there is no provider. */
int fairlead_device_count(void);
int fairlead_device_set(int device);
int fairlead_device_get(int* device);
/* Ends all memory, streams, events and graphs of the current device, as cudaDeviceReset() and
 * hipDeviceReset() do. What is used afterwards must be made anew. */
int fairlead_device_reset(void);
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

/* Streams, events and graphs behave as in CUDA and HIP; the three handles are Fairlead's own. A stream
 * executes its work in order, after the call that submitted it has returned. The functions above use a stream
 * of their own for each device, which synchronises with the default stream, as these streams do. */
struct fairlead_device_stream;
struct fairlead_device_event;
struct fairlead_device_graph;

/* Creates a stream of the current device. */
int fairlead_device_stream_create(struct fairlead_device_stream** stream);
/* Makes a handle for a cudaStream_t or hipStream_t, also for the default streams 0, 1 and 2 of the current
 * device. Destroying the handle leaves that stream alone. */
int fairlead_device_stream_adopt(struct fairlead_device_stream** stream, void* native);
/* cudaStream_t or hipStream_t. On the simulated GPU, a handle that only Fairlead knows. */
void* fairlead_device_stream_native(struct fairlead_device_stream* stream);
/* Waits for the work of the stream. */
int fairlead_device_stream_destroy(struct fairlead_device_stream* stream);
int fairlead_device_stream_synchronize(struct fairlead_device_stream* stream);
/* FAIRLEAD_DEVICE_NOT_READY while work is in flight. */
int fairlead_device_stream_query(struct fairlead_device_stream* stream);

/* Host memory must stay valid until the copy has completed. */
int fairlead_device_copy_on(struct fairlead_device_stream* stream, void* to, const void* from, size_t bytes);
int fairlead_device_fill_on(struct fairlead_device_stream* stream, void* to, int byte, size_t bytes);
/* The stream must be one of the current device. */
int fairlead_device_launch_on(struct fairlead_device_stream* stream, const char* kernel, unsigned grid,
                              unsigned block, void** arguments);
/* Calls the function from a thread of the driver. It must not use the GPU, and should not block. */
int fairlead_device_call_on(struct fairlead_device_stream* stream, void (*function)(void*), void* argument);

/* Creates an event of the current device. */
int fairlead_device_event_create(struct fairlead_device_event** event);
int fairlead_device_event_destroy(struct fairlead_device_event* event);
int fairlead_device_event_record(struct fairlead_device_event* event, struct fairlead_device_stream* stream);
/* FAIRLEAD_DEVICE_NOT_READY until the stream has reached the event. */
int fairlead_device_event_query(struct fairlead_device_event* event);
/* Work submitted to the stream later starts after the event. */
int fairlead_device_event_wait(struct fairlead_device_event* event, struct fairlead_device_stream* stream);

/* What is submitted between begin and end executes each time the graph is launched. Streams that wait for an
 * event of the capture join it. Synchronisation and queries of these streams and events invalidate it. */
int fairlead_device_capture_begin(struct fairlead_device_stream* stream);
int fairlead_device_capture_end(struct fairlead_device_stream* stream, struct fairlead_device_graph** graph);
int fairlead_device_graph_launch(struct fairlead_device_graph* graph, struct fairlead_device_stream* stream);
int fairlead_device_graph_destroy(struct fairlead_device_graph* graph);

#ifdef __cplusplus
}
#endif
#endif
