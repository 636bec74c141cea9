// SPDX-License-Identifier: Apache-2.0
//
// Managed (unified) memory has one address for host and GPU; its pages move to the processor that accesses
// them. Any MPI can send it, because the CPU can read it. The price: pages that the host has sent return to the GPU one
// fault at a time. The host must not access them while a kernel writes them: synchronize first.

#include <mpi.h>

#include <cstdio>

#include "../choose_gpu.h"

constexpr int n = 1 << 20;

__global__ void fill(int* numbers, int first) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  numbers[i] = first + i;
}

__global__ void add_one(int* numbers) {
  ++numbers[blockIdx.x * blockDim.x + threadIdx.x];
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  choose_gpu(MPI_COMM_WORLD);

  int *mine, *from_left;
  gpuCheck(gpuMallocManaged(&mine, n * sizeof(int)));
  gpuCheck(gpuMallocManaged(&from_left, n * sizeof(int)));

  gpuLaunch(fill, n / 256, 256, mine, rank);
  gpuCheck(gpuDeviceSynchronize());
  int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  MPI_Sendrecv(mine, n, MPI_INT, right, 0, from_left, n, MPI_INT, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  gpuLaunch(add_one, n / 256, 256, from_left);
  gpuCheck(gpuDeviceSynchronize());

  bool good = true;
  for (int i = 0; i < n; ++i) good &= from_left[i] == left + i + 1;  // no copy: the host reads the GPU's memory
  std::printf("rank %d: %d integers of rank %d, in managed memory: %s\n", rank, n, left, good ? "all right" : "WRONG");

  gpuCheck(gpuFree(mine));
  gpuCheck(gpuFree(from_left));
  MPI_Finalize();
  return good ? 0 : 1;
}
