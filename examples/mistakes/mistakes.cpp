// SPDX-License-Identifier: Apache-2.0
//
// Three mistakes of programs with GPUs, and what Fairlead says of them (docs/use/debugging.md). Two ranks:
//
//   hang       each waits for a tag that the other does not send
//   race       a message is sent before its kernel has run: fairlead run --check streams
//   mismatch   the ranks sum arrays of different lengths: fairlead run --check collectives

#include <mpi.h>

#include <cstdio>
#include <cstring>

#include "../choose_gpu.h"
#include "../gpu.h"

constexpr int length = 1 << 17;  // 1 MiB

__global__ void produce(double* field) {
  field[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

// The neighbours disagree on the tag.
void hang(double* field, int rank) {
  const int tag = rank == 0 ? 7 : 8;
  if (rank == 1) MPI_Send(field, length, MPI_DOUBLE, 0, tag, MPI_COMM_WORLD);
  MPI_Recv(field, length, MPI_DOUBLE, 1 - rank, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 0) MPI_Send(field, length, MPI_DOUBLE, 1, tag, MPI_COMM_WORLD);
}

// gpuStreamSynchronize(stream) is missing between the kernel and MPI_Send.
void race(double* field, int rank) {
  gpuStream_t stream;
  gpuCheck(gpuStreamCreate(&stream));
  if (rank == 1) {
    gpuLaunchOn(stream, produce, length / 256, 256, field);
    MPI_Send(field, length, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD);
  } else {
    MPI_Recv(field, length, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  gpuCheck(gpuDeviceSynchronize());
  gpuCheck(gpuStreamDestroy(stream));
}

// Rank 0 counts the boundary, too.
void mismatch(double* field, int rank) {
  MPI_Allreduce(MPI_IN_PLACE, field, rank == 0 ? 1025 : 1024, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const char* const mistake = argc == 2 ? argv[1] : "";
  void (*run)(double*, int) = nullptr;
  if (std::strcmp(mistake, "hang") == 0) run = hang;
  if (std::strcmp(mistake, "race") == 0) run = race;
  if (std::strcmp(mistake, "mismatch") == 0) run = mismatch;
  if (run == nullptr || size != 2) {
    if (rank == 0) std::fprintf(stderr, "usage, with two ranks: mistakes hang|race|mismatch\n");
    MPI_Finalize();
    return 2;
  }
  choose_gpu(MPI_COMM_WORLD);
  double* field;
  gpuCheck(gpuMalloc(&field, length * sizeof(double)));
  gpuCheck(gpuMemset(field, 0, length * sizeof(double)));
  run(field, rank);
  gpuCheck(gpuFree(field));
  MPI_Finalize();
}
