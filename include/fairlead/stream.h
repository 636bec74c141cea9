/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI operations in the order of a GPU stream: a call enqueues an operation, returns at once, and the stream
 * does it after the work that was enqueued before and before the work that is enqueued after. Nothing
 * synchronises the stream:
 *
 *     MPI_Info_create(&info);
 *     MPI_Info_set(info, "type", "cudaStream_t");                     // or "hipStream_t"
 *     MPIX_Info_set_hex(info, "value", &stream, sizeof stream);
 *     MPIX_Stream_create(info, &mpi_stream);
 *     MPIX_Stream_comm_create(MPI_COMM_WORLD, mpi_stream, &comm);     // collective
 *     produce<<<grid, block, 0, stream>>>(halo);
 *     MPIX_Isend_enqueue(halo, n, MPI_DOUBLE, right, 0, comm, &requests[0]);
 *     MPIX_Irecv_enqueue(ghost, n, MPI_DOUBLE, left, 0, comm, &requests[1]);
 *     MPIX_Waitall_enqueue(2, requests, MPI_STATUSES_IGNORE);
 *     consume<<<grid, block, 0, stream>>>(ghost);
 *
 * Names and parameters of the first group are those of MPICH 5, so a program that is compiled with MPICH's
 * mpi.h runs unchanged; the second group follows its style. With other MPIs this header declares both. The
 * functions are found when they are called: without Fairlead (or an MPI that has them) they return
 * MPI_ERR_OTHER and say so once.
 *
 * The MPI must give MPI_THREAD_MULTIPLE. In a program that includes this header, Fairlead asks for it in
 * MPI_Init() and MPI_Init_thread(), whatever the program asks for, unless each of its sources that include it
 * defines FAIRLEAD_STREAM_KEEP_THREAD_LEVEL before. (One that does is enough for those that include
 * MPICH's mpi.h only, for whose functions Fairlead asks as well.)
 *
 * Messages are matched in the order of the calls, with messages of plain MPI calls on the communicator too;
 * their bytes are read and written when the stream has come to them. (What docs/design/streams.md lists is
 * matched only then.) A blocking call (MPIX_Send_enqueue, the collectives) makes the stream wait for its end,
 * a nonblocking one does so at MPIX_Wait_enqueue(). Buffers belong to the operation until then. Statuses are
 * stored when the operation ends, for the host to read after it has synchronised the stream. An operation's
 * error is returned by the next call on the communicator, or by MPI_Comm_free. A stream that is being
 * captured takes the operation into the graph; each launch starts it anew. (docs/design/streams.md)
 */
#ifndef FAIRLEAD_STREAM_H
#define FAIRLEAD_STREAM_H

#include <dlfcn.h>
#include <fairlead/partitioned.h>
#include <mpi.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void* fairlead_stream_function(const char* name) {
  static int said = 0;
  void* program = dlopen(NULL, RTLD_LAZY);
  void* function = program ? dlsym(program, name) : NULL;
  if (!function && !said++)
    fprintf(stderr, "%s: Fairlead is not loaded; start the program by `fairlead run`\n", name);
  return function;
}

static inline void fairlead_stream_call(const char* name) {
  void (*function)(void) = (void (*)(void))dlsym(dlopen(NULL, RTLD_LAZY), name);
  if (function) function();
}

/* Sets CUDA_MODULE_LOADING=EAGER, unless it is set, before the program uses the GPU: the driver otherwise
 * loads each kernel at its first launch, which ends only when all streams are idle. (docs/use/streams.md,
 * "Limits") */
__attribute__((constructor(101), used)) static void fairlead_stream_program(void) {
  fairlead_stream_call("fairlead_prepare_streams");
#ifdef FAIRLEAD_STREAM_KEEP_THREAD_LEVEL
  fairlead_stream_call("fairlead_keep_thread_level");
#else
  fairlead_stream_call("fairlead_request_threads");
#endif
}

#define FAIRLEAD_STREAM_FUNCTION(name, parameters, arguments)        \
  static inline int name parameters {                                \
    typedef int Function parameters;                                 \
    Function* function = (Function*)fairlead_stream_function(#name); \
    return function ? function arguments : MPI_ERR_OTHER;            \
  }

#ifndef MPIX_STREAM_NULL /* MPICH's header has the first group */
typedef int MPIX_Stream;
#define MPIX_STREAM_NULL ((MPIX_Stream)0x3c000000)

FAIRLEAD_STREAM_FUNCTION(MPIX_Info_set_hex,
                         (MPI_Info info, const char* key, const void* value, int value_size),
                         (info, key, value, value_size))
FAIRLEAD_STREAM_FUNCTION(MPIX_Stream_create, (MPI_Info info, MPIX_Stream* stream), (info, stream))
FAIRLEAD_STREAM_FUNCTION(MPIX_Stream_free, (MPIX_Stream * stream), (stream))
FAIRLEAD_STREAM_FUNCTION(MPIX_Stream_comm_create, (MPI_Comm comm, MPIX_Stream stream, MPI_Comm* newcomm),
                         (comm, stream, newcomm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Stream_comm_create_multiplex,
                         (MPI_Comm comm, int count, MPIX_Stream array_of_streams[], MPI_Comm* newcomm),
                         (comm, count, array_of_streams, newcomm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Comm_get_stream, (MPI_Comm comm, int idx, MPIX_Stream* stream),
                         (comm, idx, stream))
/* Fairlead's progress is one for all streams, and its thread runs by itself; MPIX_Start_progress_thread() and
 * MPIX_Stop_progress_thread() do nothing. */
FAIRLEAD_STREAM_FUNCTION(MPIX_Stream_progress, (MPIX_Stream stream), (stream))
FAIRLEAD_STREAM_FUNCTION(MPIX_Start_progress_thread, (MPIX_Stream stream), (stream))
FAIRLEAD_STREAM_FUNCTION(MPIX_Stop_progress_thread, (MPIX_Stream stream), (stream))
FAIRLEAD_STREAM_FUNCTION(MPIX_Send_enqueue,
                         (const void* buf, int count, MPI_Datatype datatype, int dest, int tag,
                          MPI_Comm comm),
                         (buf, count, datatype, dest, tag, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Recv_enqueue,
                         (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                          MPI_Status* status),
                         (buf, count, datatype, source, tag, comm, status))
FAIRLEAD_STREAM_FUNCTION(MPIX_Isend_enqueue,
                         (const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
                          MPI_Request* request),
                         (buf, count, datatype, dest, tag, comm, request))
FAIRLEAD_STREAM_FUNCTION(MPIX_Irecv_enqueue,
                         (void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
                          MPI_Request* request),
                         (buf, count, datatype, source, tag, comm, request))
FAIRLEAD_STREAM_FUNCTION(MPIX_Wait_enqueue, (MPI_Request * request, MPI_Status* status), (request, status))
FAIRLEAD_STREAM_FUNCTION(MPIX_Waitall_enqueue,
                         (int count, MPI_Request array_of_requests[], MPI_Status* array_of_statuses),
                         (count, array_of_requests, array_of_statuses))
FAIRLEAD_STREAM_FUNCTION(MPIX_Allreduce_enqueue,
                         (const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                          MPI_Comm comm),
                         (sendbuf, recvbuf, count, datatype, op, comm))
/* The same with large counts. */
FAIRLEAD_STREAM_FUNCTION(MPIX_Send_enqueue_c,
                         (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                          MPI_Comm comm),
                         (buf, count, datatype, dest, tag, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Recv_enqueue_c,
                         (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                          MPI_Comm comm, MPI_Status* status),
                         (buf, count, datatype, source, tag, comm, status))
FAIRLEAD_STREAM_FUNCTION(MPIX_Isend_enqueue_c,
                         (const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                          MPI_Comm comm, MPI_Request* request),
                         (buf, count, datatype, dest, tag, comm, request))
FAIRLEAD_STREAM_FUNCTION(MPIX_Irecv_enqueue_c,
                         (void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                          MPI_Comm comm, MPI_Request* request),
                         (buf, count, datatype, source, tag, comm, request))
FAIRLEAD_STREAM_FUNCTION(MPIX_Allreduce_enqueue_c,
                         (const void* sendbuf, void* recvbuf, MPI_Count count, MPI_Datatype datatype,
                          MPI_Op op, MPI_Comm comm),
                         (sendbuf, recvbuf, count, datatype, op, comm))
#endif

/* The second group. */

FAIRLEAD_STREAM_FUNCTION(MPIX_Sendrecv_enqueue,
                         (const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
                          void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
                          MPI_Comm comm, MPI_Status* status),
                         (sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
                          recvtag, comm, status))
/* Starts a persistent request, of any communicator, in the order of the stream of `comm`; MPIX_Wait_enqueue()
 * makes the stream wait for it and keeps the request. */
FAIRLEAD_STREAM_FUNCTION(MPIX_Start_enqueue, (MPI_Request * request, MPI_Comm comm), (request, comm))
/* The stream of `comm` marks partitions of a send as ready, and waits for a partition of a receive, behind
 * the MPIX_Start_enqueue() of the request and before its MPIX_Wait_enqueue(). Inside a node the sender's GPU
 * writes to the receiver's buffer, from the second or third round on. (docs/use/streams.md) */
FAIRLEAD_STREAM_FUNCTION(MPIX_Pready_enqueue, (int partition, MPI_Request request, MPI_Comm comm),
                         (partition, request, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Pready_range_enqueue,
                         (int partition_low, int partition_high, MPI_Request request, MPI_Comm comm),
                         (partition_low, partition_high, request, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Parrived_enqueue, (MPI_Request request, int partition, MPI_Comm comm),
                         (request, partition, comm))
/* For MPI_Pready and MPI_Parrived from kernels (fairlead/partitioned.h): makes what is passed to the kernels,
 * for a request of MPI_Psend_init() or MPI_Precv_init() that is not active and whose buffer is in device
 * memory. The MPI must give MPI_THREAD_MULTIPLE. Freed when no kernel uses it any more and the request is not
 * active; the request may be freed before. */
FAIRLEAD_STREAM_FUNCTION(MPIX_Prequest_create, (MPI_Request request, MPIX_Prequest* prequest),
                         (request, prequest))
FAIRLEAD_STREAM_FUNCTION(MPIX_Prequest_free, (MPIX_Prequest * prequest), (prequest))
FAIRLEAD_STREAM_FUNCTION(MPIX_Barrier_enqueue, (MPI_Comm comm), (comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Bcast_enqueue,
                         (void* buffer, int count, MPI_Datatype datatype, int root, MPI_Comm comm),
                         (buffer, count, datatype, root, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Reduce_enqueue,
                         (const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype, MPI_Op op,
                          int root, MPI_Comm comm),
                         (sendbuf, recvbuf, count, datatype, op, root, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Reduce_scatter_enqueue,
                         (const void* sendbuf, void* recvbuf, const int recvcounts[], MPI_Datatype datatype,
                          MPI_Op op, MPI_Comm comm),
                         (sendbuf, recvbuf, recvcounts, datatype, op, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Reduce_scatter_block_enqueue,
                         (const void* sendbuf, void* recvbuf, int recvcount, MPI_Datatype datatype, MPI_Op op,
                          MPI_Comm comm),
                         (sendbuf, recvbuf, recvcount, datatype, op, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Allgather_enqueue,
                         (const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm),
                         (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Alltoall_enqueue,
                         (const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm),
                         (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Alltoallv_enqueue,
                         (const void* sendbuf, const int sendcounts[], const int sdispls[],
                          MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
                          MPI_Datatype recvtype, MPI_Comm comm),
                         (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                          comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Neighbor_allgather_enqueue,
                         (const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm),
                         (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Neighbor_alltoall_enqueue,
                         (const void* sendbuf, int sendcount, MPI_Datatype sendtype, void* recvbuf,
                          int recvcount, MPI_Datatype recvtype, MPI_Comm comm),
                         (sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Neighbor_alltoallv_enqueue,
                         (const void* sendbuf, const int sendcounts[], const int sdispls[],
                          MPI_Datatype sendtype, void* recvbuf, const int recvcounts[], const int rdispls[],
                          MPI_Datatype recvtype, MPI_Comm comm),
                         (sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                          comm))
FAIRLEAD_STREAM_FUNCTION(MPIX_Neighbor_alltoallw_enqueue,
                         (const void* sendbuf, const int sendcounts[], const MPI_Aint sdispls[],
                          const MPI_Datatype sendtypes[], void* recvbuf, const int recvcounts[],
                          const MPI_Aint rdispls[], const MPI_Datatype recvtypes[], MPI_Comm comm),
                         (sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                          comm))

/* On the stream of the communicator with which the window was created; it must not be freed before. The
 * program has called MPI_Win_lock_all() or MPI_Win_lock(). An access starts when the stream has come to it;
 * its origin buffer belongs to it until the stream has passed a flush, which makes the stream wait until all
 * accesses enqueued before to the rank, or all ranks, are complete at their targets. */
FAIRLEAD_STREAM_FUNCTION(MPIX_Put_enqueue,
                         (const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                          int target_rank, MPI_Aint target_disp, int target_count,
                          MPI_Datatype target_datatype, MPI_Win win),
                         (origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                          target_datatype, win))
FAIRLEAD_STREAM_FUNCTION(MPIX_Get_enqueue,
                         (void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
                          MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win),
                         (origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                          target_datatype, win))
FAIRLEAD_STREAM_FUNCTION(MPIX_Accumulate_enqueue,
                         (const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                          int target_rank, MPI_Aint target_disp, int target_count,
                          MPI_Datatype target_datatype, MPI_Op op, MPI_Win win),
                         (origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                          target_datatype, op, win))
FAIRLEAD_STREAM_FUNCTION(MPIX_Win_flush_enqueue, (int rank, MPI_Win win), (rank, win))
FAIRLEAD_STREAM_FUNCTION(MPIX_Win_flush_all_enqueue, (MPI_Win win), (win))

#undef FAIRLEAD_STREAM_FUNCTION

#ifdef __cplusplus
}
#endif
#endif
