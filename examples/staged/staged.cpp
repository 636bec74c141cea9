// SPDX-License-Identifier: Apache-2.0
//
// The same message as in send_receive, for an MPI without GPU support: the program copies it to host memory, which is
// page-locked because GPUs copy faster from and to such memory. The steps run one after the other; a GPU-aware MPI
// copies directly inside a node, and overlaps these steps between nodes.

#include <mpi.h>

#include <cstdio>

#include "../choose_gpu.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) {
    std::fprintf(stderr, "staged: needs 2 ranks\n");
    MPI_Finalize();
    return 2;
  }
  choose_gpu(MPI_COMM_WORLD);

  constexpr int n = 1 << 20;
  constexpr size_t bytes = n * sizeof(double);
  double *device, *host;
  gpuCheck(gpuMalloc(&device, bytes));
  gpuCheck(gpuMallocHost(&host, bytes));

  bool good = true;
  if (rank == 0) {
    for (int i = 0; i < n; ++i) host[i] = i;
    gpuCheck(gpuMemcpy(device, host, bytes, gpuMemcpyHostToDevice));
    for (int i = 0; i < n; ++i) host[i] = -1;

    gpuCheck(gpuMemcpy(host, device, bytes, gpuMemcpyDeviceToHost));  // waits for kernels that write `device`
    MPI_Send(host, n, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(host, n, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    gpuCheck(gpuMemcpy(device, host, bytes, gpuMemcpyHostToDevice));

    for (int i = 0; i < n; ++i) host[i] = -1;
    gpuCheck(gpuMemcpy(host, device, bytes, gpuMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) good &= host[i] == i;
    std::printf("rank 1 received %d doubles through host memory: %s\n", n, good ? "all right" : "WRONG");
  }

  gpuCheck(gpuFreeHost(host));
  gpuCheck(gpuFree(device));
  MPI_Finalize();
  return good ? 0 : 1;
}
