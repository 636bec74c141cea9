// SPDX-License-Identifier: Apache-2.0
//
// Device pointers in MPI_Send and MPI_Recv: rank 0 fills a buffer on its GPU and sends it, rank 1 receives it on its
// own. It needs a GPU-aware MPI: another one would read the address as host memory, and crash.

#include <mpi.h>

#include <cstdio>
#include <vector>

#include "../choose_gpu.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < 2) {
    std::fprintf(stderr, "send_receive: needs 2 ranks\n");
    MPI_Finalize();
    return 2;
  }
  choose_gpu(MPI_COMM_WORLD);

  constexpr int n = 1 << 20;
  std::vector<double> host(n);
  double* device;
  gpuCheck(gpuMalloc(&device, n * sizeof(double)));

  bool good = true;
  if (rank == 0) {
    for (int i = 0; i < n; ++i) host[i] = i;
    gpuCheck(gpuMemcpy(device, host.data(), n * sizeof(double), gpuMemcpyHostToDevice));
    gpuCheck(gpuDeviceSynchronize());  // a copy from pageable memory may return before its last bytes have arrived
    MPI_Send(device, n, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
  } else if (rank == 1) {
    MPI_Recv(device, n, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    gpuCheck(gpuMemcpy(host.data(), device, n * sizeof(double), gpuMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) good &= host[i] == i;
    std::printf("rank 1 received %d doubles from the GPU of rank 0 on its own: %s\n", n, good ? "all right" : "WRONG");
  }

  gpuCheck(gpuFree(device));
  MPI_Finalize();
  return good ? 0 : 1;
}
