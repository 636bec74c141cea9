// SPDX-License-Identifier: Apache-2.0
//
// A small profiler: it wraps MPI functions, counts their calls and the bytes that they are given, and prints
// both in MPI_Finalize. It calls the MPI by PMPI_X, as most tools do, or, with FIND_BY_DLSYM, by what dlsym()
// returns for PMPI_X, as Darshan does. A program can ask it by pmpi_counter_read().

#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#ifdef FIND_BY_DLSYM
#define NEXT(name) ((__typeof__(&PMPI_##name))dlsym(RTLD_NEXT, "PMPI_" #name))
#else
#define NEXT(name) PMPI_##name
#endif

enum function {
  INIT,
  INIT_THREAD,
  SEND,
  RECV,
  ISEND,
  IRECV,
  WAIT,
  WAITALL,
  ALLREDUCE,
  BCAST,
  FINALIZE,
  FUNCTIONS
};
static const char* const names[] = {"MPI_Init",      "MPI_Init_thread", "MPI_Send",    "MPI_Recv",
                                    "MPI_Isend",     "MPI_Irecv",       "MPI_Wait",    "MPI_Waitall",
                                    "MPI_Allreduce", "MPI_Bcast",       "MPI_Finalize"};
static struct { long long calls, bytes; } counted[FUNCTIONS];

// Returns 0 if this function is not counted.
int pmpi_counter_read(const char* name, long long* calls, long long* bytes) {
  for (int i = 0; i < FUNCTIONS; ++i) {
    if (strcmp(names[i], name) != 0) continue;
    *calls = counted[i].calls;
    *bytes = counted[i].bytes;
    return 1;
  }
  return 0;
}

static void note(enum function function, int count, MPI_Datatype type) {
  int size = 0;
  if (count > 0) NEXT(Type_size)(type, &size);
  ++counted[function].calls;
  counted[function].bytes += (long long)count * size;
}

int MPI_Init(int* argc, char*** argv) {
  note(INIT, 0, MPI_BYTE);
  return NEXT(Init)(argc, argv);
}

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  note(INIT_THREAD, 0, MPI_BYTE);
  return NEXT(Init_thread)(argc, argv, required, provided);
}

int MPI_Send(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  note(SEND, count, type);
  return NEXT(Send)(buf, count, type, dest, tag, comm);
}

int MPI_Recv(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status* status) {
  note(RECV, count, type);
  return NEXT(Recv)(buf, count, type, source, tag, comm, status);
}

int MPI_Isend(const void* buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  note(ISEND, count, type);
  return NEXT(Isend)(buf, count, type, dest, tag, comm, request);
}

int MPI_Irecv(void* buf, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  note(IRECV, count, type);
  return NEXT(Irecv)(buf, count, type, source, tag, comm, request);
}

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  note(WAIT, 0, MPI_BYTE);
  return NEXT(Wait)(request, status);
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  note(WAITALL, 0, MPI_BYTE);
  return NEXT(Waitall)(count, requests, statuses);
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  note(ALLREDUCE, count, type);
  return NEXT(Allreduce)(from, to, count, type, op, comm);
}

int MPI_Bcast(void* buf, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  note(BCAST, count, type);
  return NEXT(Bcast)(buf, count, type, root, comm);
}

int MPI_Finalize(void) {
  int rank = 0;
  NEXT(Comm_rank)(MPI_COMM_WORLD, &rank);
  note(FINALIZE, 0, MPI_BYTE);
  for (int i = 0; i < FUNCTIONS; ++i)
    if (counted[i].calls > 0)
      printf("pmpi_counter: rank %d: %s: %lld calls, %lld bytes\n", rank, names[i], counted[i].calls,
             counted[i].bytes);
  fflush(stdout);
  return NEXT(Finalize)();
}
