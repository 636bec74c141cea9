/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI_Pready and MPI_Parrived from GPU kernels: a kernel marks each partition of a partitioned send as soon
 * as it has written it, and sees which partitions of a receive have arrived.
 *
 *     __global__ void produce(double* halo, MPIX_Prequest prequest) {       // one block for each partition
 *       fill(halo, blockIdx.x);
 *       __syncthreads();                                                    // all threads have stored
 *       if (threadIdx.x == 0) MPIX_Pready(blockIdx.x, prequest);
 *     }
 *
 * This header is for device code in CUDA and HIP sources, for kernels of fairlead/kernel.h, and for host
 * code. It includes no other header. MPIX_Prequest_create() of fairlead/stream.h makes the MPIX_Prequest of a
 * request, which is passed to kernels by value. (docs/use/streams.md)
 */
#ifndef FAIRLEAD_PARTITIONED_H
#define FAIRLEAD_PARTITIONED_H

/* Treat as opaque. */
typedef struct MPIX_Prequest {
  unsigned* words; /* page-locked host memory, one word for each partition */
  int partitions;
} MPIX_Prequest;

#if defined(__clang__) && (defined(__CUDA__) || defined(__HIP__))
#define FAIRLEAD_ANYWHERE __attribute__((host, device))
#elif defined(__CUDACC__)
#define FAIRLEAD_ANYWHERE __host__ __device__
#else
#define FAIRLEAD_ANYWHERE
#endif
/* Atomic accesses have system scope in code for AMD GPUs. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#define FAIRLEAD_SYSTEM_FENCE "membar.sys;"
#elif defined(__CUDA_ARCH__)
#define FAIRLEAD_SYSTEM_FENCE "fence.acq_rel.sys;"
#endif

/* Marks a partition as ready. Called once a round, by one thread, after the threads that write the partition
 * have passed a barrier. A mark that comes before the request is started counts for that start. Like the
 * other function, it returns 0, or 1 if there is no such partition. */
static inline FAIRLEAD_ANYWHERE int MPIX_Pready(int partition, MPIX_Prequest prequest) {
  if (partition < 0 || partition >= prequest.partitions) return 1;
#ifdef FAIRLEAD_SYSTEM_FENCE
  asm volatile(FAIRLEAD_SYSTEM_FENCE ::: "memory");
  *(volatile unsigned*)(prequest.words + partition) = 1;
#else
  __atomic_store_n(prequest.words + partition, 1u, __ATOMIC_RELEASE);
#endif
  return 0;
}

/* Stores in *flag whether a partition has arrived in this round. If so, its bytes are in device memory; the
 * calling thread may read them, and other threads behind a barrier. */
static inline FAIRLEAD_ANYWHERE int MPIX_Parrived(MPIX_Prequest prequest, int partition, int* flag) {
  if (partition < 0 || partition >= prequest.partitions) return 1;
#ifdef FAIRLEAD_SYSTEM_FENCE
  *flag = *(volatile unsigned*)(prequest.words + partition) != 0;
  asm volatile(FAIRLEAD_SYSTEM_FENCE ::: "memory");
#else
  *flag = __atomic_load_n(prequest.words + partition, __ATOMIC_ACQUIRE) != 0;
#endif
  return 0;
}

#undef FAIRLEAD_ANYWHERE
#undef FAIRLEAD_SYSTEM_FENCE

#endif
