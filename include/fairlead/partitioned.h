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
 * Or all threads of the block store it to the receiver themselves:
 *
 *       MPIX_Pready_block(blockIdx.x, prequest, threadIdx.x, blockDim.x);   // no barrier before it
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

/* Before the words of a send: the way to the receiver's buffer. */
typedef struct FairleadPartitionWay {
  const char* from; /* the first partition, here and there, as kernels address them */
  char* to;
  unsigned* arrived;
  unsigned long bytes; /* of each */
  unsigned open;       /* in this round a kernel may store there */
  unsigned reserved[7];
} FairleadPartitionWay;

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
#if defined(__CUDA_ARCH__)
#define FAIRLEAD_BARRIER() __syncthreads()
#elif defined(__AMDGCN__)
#define FAIRLEAD_BARRIER()                                                              \
  (__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"), __builtin_amdgcn_s_barrier(), \
   __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup"))
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

/* The same, called by all threads of a block of a kernel on the buffer's GPU, each with its number and how
 * many there are. In place of the CPU, they store the partition to the receiver's buffer, if that GPU can
 * write to it and the receiver has started the round. The stores of all threads before the call count. */
static inline FAIRLEAD_ANYWHERE int MPIX_Pready_block(int partition, MPIX_Prequest prequest, unsigned thread,
                                                      unsigned threads) {
  const FairleadPartitionWay* const way = (const FairleadPartitionWay*)prequest.words - 1;
  struct __attribute__((aligned(16), may_alias)) Unit {
    unsigned words[4];
  };
  typedef unsigned __attribute__((may_alias)) Word;
  unsigned long at, step, done = 0;
  const char* from;
  char* to;
#ifdef FAIRLEAD_BARRIER
  static __attribute__((shared)) FairleadPartitionWay seen;
#else
  FairleadPartitionWay seen;
#endif
  if (partition < 0 || partition >= prequest.partitions) return 1;
#ifdef FAIRLEAD_BARRIER
  if (thread == 0) {
#else
  /* A simulated GPU: its threads run one after the other. */
  if (thread != threads - 1) return 0;
  thread = 0, threads = 1;
  {
#endif
#ifdef FAIRLEAD_SYSTEM_FENCE
    seen.open = *(const volatile unsigned*)&way->open;
    asm volatile(FAIRLEAD_SYSTEM_FENCE ::: "memory");
#else
    seen.open = __atomic_load_n(&way->open, __ATOMIC_ACQUIRE);
#endif
    if (seen.open)
      seen.from = way->from, seen.to = way->to, seen.arrived = way->arrived, seen.bytes = way->bytes;
  }
#ifdef FAIRLEAD_BARRIER
  FAIRLEAD_BARRIER();
#endif
  if (seen.open) {
    at = thread, step = 4ul * threads;
    from = seen.from + (unsigned long)partition * seen.bytes;
    to = seen.to + (unsigned long)partition * seen.bytes;
    if (((unsigned long)from | (unsigned long)to) % sizeof(struct Unit) == 0) {
      const struct Unit* const units = (const struct Unit*)from;
      struct Unit* const stored = (struct Unit*)to;
      const unsigned long count = seen.bytes / sizeof(struct Unit);
      for (; at + step - threads < count; at += step) { /* four loads at once */
        const struct Unit one = units[at], two = units[at + threads], three = units[at + 2ul * threads],
                          four = units[at + 3ul * threads];
        stored[at] = one, stored[at + threads] = two;
        stored[at + 2ul * threads] = three, stored[at + 3ul * threads] = four;
      }
      for (; at < count; at += threads) stored[at] = units[at];
      done = count * sizeof(struct Unit);
    } else if (((unsigned long)from | (unsigned long)to) % sizeof(Word) == 0) {
      for (; at < seen.bytes / sizeof(Word); at += threads) ((Word*)to)[at] = ((const Word*)from)[at];
      done = seen.bytes / sizeof(Word) * sizeof(Word);
    }
    for (at = done + thread; at < seen.bytes; at += threads) to[at] = from[at];
  }
#ifdef FAIRLEAD_BARRIER
  FAIRLEAD_BARRIER();
#endif
  if (thread != 0) return 0;
  if (!seen.open) return MPIX_Pready(partition, prequest);
#ifdef FAIRLEAD_SYSTEM_FENCE
  asm volatile(FAIRLEAD_SYSTEM_FENCE ::: "memory");
  *(volatile unsigned*)(seen.arrived + partition) = 1;
  *(volatile unsigned*)(prequest.words + partition) = 2;
#else
  __atomic_store_n(seen.arrived + partition, 1u, __ATOMIC_RELEASE);
  __atomic_store_n(prequest.words + partition, 2u, __ATOMIC_RELEASE);
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
#undef FAIRLEAD_BARRIER

#endif
