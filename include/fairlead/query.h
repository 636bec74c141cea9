/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the Fairlead that is loaded into this process what it is and what it has done, as JSON:
 *
 *     char text[65536];
 *     if (fairlead_statistics(text, sizeof text) == 0) puts("Fairlead is not loaded");
 *
 * Both functions return the bytes that the whole text takes, with its terminating zero, and write as much of it as
 * fits, always terminated; 0 where Fairlead is not loaded. They may be called from any thread at any time, and are
 * about this process only. The program links nothing. (Before glibc 2.34, link with -ldl.)
 */
#ifndef FAIRLEAD_QUERY_H
#define FAIRLEAD_QUERY_H

#include <dlfcn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline size_t fairlead_query(const char *name, char *text, size_t bytes) {
  void *program = dlopen(NULL, RTLD_LAZY);
  void *function = program ? dlsym(program, name) : NULL;
  return function ? ((size_t (*)(char *, size_t))function)(text, bytes) : 0;
}

/* version, abi ("openmpi", "mpich", "abi"), mpi (what the host MPI says of itself, "" where there is none), provider
 * ("cuda", "rocm", "sim", "none"), driver (its version number), active (whether device memory is handled: between
 * MPI_Init and MPI_Finalize of a job with a GPU), devices (name, pci, bytes of memory), options (name, variable,
 * value, origin) that differ from their defaults. Asking for the devices initialises the GPU's driver. */
static inline size_t fairlead_info(char *text, size_t bytes) {
  return fairlead_query("fairlead_info", text, bytes);
}

/* The statistics of docs/statistics.md for this process so far: traffic (way, messages, bytes) and fallbacks
 * (reason, count) are always counted; messages, calls and phases where FAIRLEAD_STATS or its like is on. */
static inline size_t fairlead_statistics(char *text, size_t bytes) {
  return fairlead_query("fairlead_statistics", text, bytes);
}

#ifdef __cplusplus
}
#endif
#endif
