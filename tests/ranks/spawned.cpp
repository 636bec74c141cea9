// SPDX-License-Identifier: Apache-2.0
//
// A parent sends device memory to a process that it has spawned, and disconnects before that one receives:
// MPI_Comm_disconnect waits for what is under way (MPI 4.1, 11.10.4). The child may or may not have Fairlead.

#include <fairlead/device.h>
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int count = 1000;

int child(MPI_Comm parents) {
  std::vector<double> received(count, -1);
  usleep(300'000);  // longer than senders are patient
  MPI_Recv(received.data(), count, MPI_DOUBLE, 0, 0, parents, MPI_STATUS_IGNORE);
  MPI_Comm_disconnect(&parents);
  for (int i = 0; i < count; ++i)
    if (received[static_cast<size_t>(i)] != i) {
      std::fprintf(stderr, "spawned: element %d is %g\n", i, received[static_cast<size_t>(i)]);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  return 0;
}

int parent(char* program) {
  int rank = 0;
  MPI_Comm children;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
  std::vector<double> sent(count);
  for (int i = 0; i < count; ++i) sent[static_cast<size_t>(i)] = i;
  void* memory = nullptr;
  if (fairlead_device_malloc(&memory, count * sizeof(double)) != 0 ||
      fairlead_device_copy(memory, sent.data(), count * sizeof(double)) != 0) {
    std::fprintf(stderr, "spawned: %s\n", fairlead_device_error_text());
    return 1;
  }
  if (rank == 0) MPI_Send(memory, count, MPI_DOUBLE, 0, 0, children);
  MPI_Comm_disconnect(&children);
  fairlead_device_free(memory);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm parents;
  MPI_Comm_get_parent(&parents);
  int result = parents == MPI_COMM_NULL ? parent(argv[0]) : child(parents);
  MPI_Finalize();
  return result;
}
