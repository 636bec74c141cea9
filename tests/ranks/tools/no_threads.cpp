// SPDX-License-Identifier: Apache-2.0
//
// A process that may have no more threads when Fairlead wants its first one: collectives go on without it,
// and what cannot do without is refused, on the communicator that it concerns.

#include <dlfcn.h>
#include <pthread.h>

#define FAIRLEAD_STREAM_KEEP_THREAD_LEVEL
#include <fairlead/device.h>
#include <fairlead/stream.h>
#include <mpi.h>

#include <cerrno>
#include <cstdio>

namespace {

bool refuses = false;
int failures = 0;

void expect(bool condition, const char* what) {
  if (condition) return;
  ++failures;
  std::fprintf(stderr, "no threads: not so: %s\n", what);
}
#define EXPECT(condition) expect(condition, #condition)

}  // namespace

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*body)(void*), void* argument) {
  static const auto next = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return refuses ? EAGAIN : next(thread, attributes, body, argument);
}

int main(int argc, char** argv) {
  int provided = 0, rank = 0, size = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  double sum = rank;
  void* memory = nullptr;
  EXPECT(fairlead_device_malloc(&memory, sizeof sum) == 0);
  fairlead_device_stream* stream = nullptr;
  EXPECT(fairlead_device_stream_create(&stream) == 0);
  // Streams of the simulated GPU are threads, which the first collective makes.
  EXPECT(fairlead_device_copy(memory, &sum, sizeof sum) == 0);
  MPI_Allreduce(MPI_IN_PLACE, memory, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  refuses = true;

  MPI_Request request;
  EXPECT(fairlead_device_copy(memory, &sum, sizeof sum) == 0);
  MPI_Iallreduce(MPI_IN_PLACE, memory, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT(fairlead_device_copy(&sum, memory, sizeof sum) == 0);
  EXPECT(sum == size * (size - 1) / 2);

  // Only this communicator returns errors.
  MPI_Comm comm, of_stream;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  void* native = fairlead_device_stream_native(stream);
  MPI_Info info;
  MPIX_Stream handle;
  MPI_Info_create(&info);
  MPI_Info_set(info, "type", "cudaStream_t");
  EXPECT(MPIX_Info_set_hex(info, "value", &native, sizeof native) == MPI_SUCCESS);
  EXPECT(MPIX_Stream_create(info, &handle) == MPI_SUCCESS);
  MPI_Info_free(&info);
  EXPECT(MPIX_Stream_comm_create(comm, handle, &of_stream) != MPI_SUCCESS);
  // MPICH 4.1 and newer answer themselves for communicators without streams.
  EXPECT(MPIX_Comm_get_stream(comm, 0, &handle) != MPI_SUCCESS || handle == MPIX_STREAM_NULL);
  MPI_Comm_free(&comm);
  EXPECT(fairlead_device_free(memory) == 0);
  if (failures > 0) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_Finalize();
  if (rank == 0) std::printf("no threads: all right\n");
  return 0;
}
