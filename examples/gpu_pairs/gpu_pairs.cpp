// SPDX-License-Identifier: Apache-2.0
//
// Measures how fast each pair of GPUs exchanges messages: ping-pongs of device buffers between every two ranks, one
// pair after the other. The table shows GB/s one way. Slow pairs have no direct link, or their messages are staged
// through host memory.

#include <mpi.h>

#include <cstdio>
#include <vector>

#include "../choose_gpu.h"

constexpr size_t bytes = 8 << 20;
constexpr int warm_up = 2, iterations = 10;

// Half the time of a round trip, in seconds.
double ping_pong(char* buffer, bool first, int partner) {
  double begun = 0;
  for (int n = -warm_up; n < iterations; ++n) {
    if (n == 0) begun = MPI_Wtime();
    if (first) MPI_Send(buffer, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
    MPI_Recv(buffer, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (!first) MPI_Send(buffer, bytes, MPI_BYTE, partner, 0, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - begun) / iterations / 2;
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  choose_gpu(MPI_COMM_WORLD);
  char* buffer;
  gpuCheck(gpuMalloc(&buffer, bytes));
  gpuCheck(gpuMemset(buffer, rank, bytes));
  gpuCheck(gpuDeviceSynchronize());

  std::vector<double> mine(ranks, 0), all(rank == 0 ? static_cast<size_t>(ranks) * ranks : 0);
  for (int a = 0; a < ranks; ++a)
    for (int b = a + 1; b < ranks; ++b) {
      MPI_Barrier(MPI_COMM_WORLD);
      if (rank == a || rank == b) mine[rank == a ? b : a] = bytes / ping_pong(buffer, rank == a, rank == a ? b : a) / 1e9;
    }
  MPI_Gather(mine.data(), ranks, MPI_DOUBLE, all.data(), ranks, MPI_DOUBLE, 0, MPI_COMM_WORLD);

  if (rank == 0) {
    std::printf("GB/s of messages of %zu bytes between the GPUs of two ranks\n     ", bytes);
    for (int to = 0; to < ranks; ++to) std::printf("%9d", to);
    for (int from = 0; from < ranks; ++from) {
      std::printf("\n%5d", from);
      for (int to = 0; to < ranks; ++to)
        if (to == from)
          std::printf("%9s", "-");
        else
          std::printf("%9.2f", all[static_cast<size_t>(from) * ranks + to]);
    }
    std::printf("\n");
  }
  gpuCheck(gpuFree(buffer));
  MPI_Finalize();
  return 0;
}
