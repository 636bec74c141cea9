// SPDX-License-Identifier: Apache-2.0
//
// A program that includes fairlead/stream.h and asks MPI for no thread level, or for a low one (argument
// "funneled"): Fairlead asks for the level that streams need, and an enqueued message arrives.

#include <fairlead/device.h>
#include <fairlead/stream.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int condition, const char* what) {
  if (condition) return;
  ++failures;
  fprintf(stderr, "stream program: not so: %s\n", what);
}
#define EXPECT(condition) expect(condition, #condition)

static void exchange(int rank, MPI_Comm comm, struct fairlead_device_stream* stream) {
  const int here = rank + 1;
  int there = 0;
  void* memory = NULL;
  EXPECT(fairlead_device_malloc(&memory, sizeof here) == 0);
  if (rank == 0) {
    EXPECT(fairlead_device_copy_on(stream, memory, &here, sizeof here) == 0);
    EXPECT(MPIX_Send_enqueue(memory, 1, MPI_INT, 1, 0, comm) == MPI_SUCCESS);
  } else {
    EXPECT(MPIX_Recv_enqueue(memory, 1, MPI_INT, 0, 0, comm, MPI_STATUS_IGNORE) == MPI_SUCCESS);
    EXPECT(fairlead_device_stream_synchronize(stream) == 0);
    EXPECT(fairlead_device_copy(&there, memory, sizeof there) == 0);
    EXPECT(there == 1);
  }
  EXPECT(fairlead_device_stream_synchronize(stream) == 0);
  EXPECT(fairlead_device_free(memory) == 0);
}

int main(int argc, char** argv) {
  int level = MPI_THREAD_MULTIPLE, provided = MPI_THREAD_SINGLE, rank = 0;
  if (argc > 1 && strcmp(argv[1], "funneled") == 0)
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  else
    MPI_Init(&argc, &argv);
  EXPECT(level == MPI_THREAD_MULTIPLE);
  EXPECT(MPI_Query_thread(&provided) == MPI_SUCCESS && provided == MPI_THREAD_MULTIPLE);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);

  struct fairlead_device_stream* stream = NULL;
  EXPECT(fairlead_device_stream_create(&stream) == 0);
  void* native = fairlead_device_stream_native(stream);
  MPI_Info info;
  MPIX_Stream handle;
  MPI_Comm comm;
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", "cudaStream_t");
  EXPECT(MPIX_Info_set_hex(info, "value", &native, sizeof native) == MPI_SUCCESS);
  EXPECT(MPIX_Stream_create(info, &handle) == MPI_SUCCESS);
  MPI_Info_free(&info);
  EXPECT(MPIX_Stream_comm_create(MPI_COMM_WORLD, handle, &comm) == MPI_SUCCESS);
  exchange(rank, comm, stream);
  MPI_Comm_free(&comm);
  EXPECT(MPIX_Stream_free(&handle) == MPI_SUCCESS);
  EXPECT(fairlead_device_stream_destroy(stream) == 0);
  if (failures > 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  return 0;
}
