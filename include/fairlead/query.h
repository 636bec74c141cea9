/* SPDX-License-Identifier: Apache-2.0
 *
 * Returns information about the Fairlead that is loaded into this process, and its statistics, as JSON:
 *
 *     char text[65536];
 *     if (fairlead_statistics(text, sizeof text) == 0) puts("Fairlead is not loaded");
 *
 * Both functions return the size of the whole text including its terminating zero, and write as much of it
 * as fits, always terminated. They return 0 if Fairlead is not loaded. Any thread may call them at any time.
 * They describe this process only. The program links no library. (Before glibc 2.34, link with -ldl.)
 */
#ifndef FAIRLEAD_QUERY_H
#define FAIRLEAD_QUERY_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline size_t fairlead_query(const char* name, char* text, size_t bytes) {
  void* program = dlopen(NULL, RTLD_LAZY);
  void* function = program ? dlsym(program, name) : NULL;
  return function ? ((size_t(*)(char*, size_t))function)(text, bytes) : 0;
}

/* version, abi ("openmpi", "mpich", "abi"), mpi (the host MPI's library version, "" if there is none),
 * provider ("cuda", "rocm", "sim", "none"), driver (its version number), active (whether Fairlead handles
 * device memory: between MPI_Init and MPI_Finalize of a job with a GPU), devices (name, pci, bytes of
 * memory), options (name, variable, value, origin) that differ from their defaults. The list of devices
 * initialises the GPU driver. */
static inline size_t fairlead_info(char* text, size_t bytes) {
  return fairlead_query("fairlead_info", text, bytes);
}

/* The statistics of docs/tools/statistics.md for this process so far. Traffic (way, messages, bytes) and
 * fallbacks (reason, count) are always counted; messages, calls and phases only if FAIRLEAD_STATS or a
 * similar option is on. */
static inline size_t fairlead_statistics(char* text, size_t bytes) {
  return fairlead_query("fairlead_statistics", text, bytes);
}

#ifdef __cplusplus
}
#endif
#endif
