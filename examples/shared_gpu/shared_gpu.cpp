// SPDX-License-Identifier: Apache-2.0
//
// Several ranks on one GPU. Each has a context of its own, and the GPU runs the contexts in time
// slices; under MPS (NVIDIA's Multi-Process Service) their kernels run at the same time. Messages between the ranks are
// copies within the GPU. The ranks share its memory: each takes its part, not all that is free.

#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "../choose_gpu.h"

constexpr int n = 1 << 18;

__global__ void fill(int* numbers, int value) {
  numbers[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  choose_gpu(MPI_COMM_WORLD);
  gpuCheck(gpuSetDevice(0));  // all ranks of the node use GPU 0

  int *mine, *all;
  gpuCheck(gpuMalloc(&mine, n * sizeof(int)));
  gpuCheck(gpuMalloc(&all, static_cast<size_t>(ranks) * n * sizeof(int)));
  gpuLaunch(fill, n / 256, 256, mine, rank);
  gpuCheck(gpuDeviceSynchronize());

  double begun = MPI_Wtime();
  MPI_Allgather(mine, n, MPI_INT, all, n, MPI_INT, MPI_COMM_WORLD);
  double ms = 1e3 * (MPI_Wtime() - begun);

  bool good = true;
  for (int sender = 0; sender < ranks; ++sender) {
    int found;
    gpuCheck(gpuMemcpy(&found, all + static_cast<size_t>(sender) * n + n / 2, sizeof found, gpuMemcpyDeviceToHost));
    good &= found == sender;
  }
  const char* mps = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  char pci[64] = "";
  gpuCheck(gpuDeviceGetPCIBusId(pci, sizeof pci, 0));
  std::printf("rank %d of %d on GPU 0 (%s), MPS %s: MPI_Allgather took %.3f ms and is %s\n", rank, ranks, pci,
              mps ? mps : "not named", ms, good ? "right" : "WRONG");

  gpuCheck(gpuFree(mine));
  gpuCheck(gpuFree(all));
  MPI_Finalize();
  return good ? 0 : 1;
}
