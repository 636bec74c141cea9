// SPDX-License-Identifier: Apache-2.0
//
// Nonblocking messages while the GPU computes. Three rules:
//
//   1. Before MPI_Isend, wait for the kernel that writes the send buffer.
//   2. The kernel that runs during the messages accesses neither send nor receive buffer.
//   3. Use the receive buffer after MPI_Wait.
//
// It times messages and kernel alone and together. With good overlap, both take as long as the longer one.

#include <mpi.h>

#include <algorithm>
#include <cstdio>

#include "../choose_gpu.h"

constexpr int n = 1 << 20, work = 1 << 16, steps = 50, iterations = 10;

__global__ void fill(double* x, double value) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

__global__ void compute(double* x, int steps) {
  double& value = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (int step = 0; step < steps; ++step) value = 0.5 * value + 1.0;
}

struct Rank {
  double *outgoing, *incoming, *inner;
  int left, right;

  void start(MPI_Request* requests) const {
    MPI_Irecv(incoming, n, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(outgoing, n, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[1]);
  }
};

template <class Work>
double median_ms(Work once) {
  double ms[iterations];
  for (double& each : ms) {
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    once();
    each = 1e3 * (MPI_Wtime() - begun);
  }
  std::nth_element(ms, ms + iterations / 2, ms + iterations);
  return ms[iterations / 2];
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  choose_gpu(MPI_COMM_WORLD);

  Rank me{};
  me.left = (rank + ranks - 1) % ranks;
  me.right = (rank + 1) % ranks;
  gpuCheck(gpuMalloc(&me.outgoing, n * sizeof(double)));
  gpuCheck(gpuMalloc(&me.incoming, n * sizeof(double)));
  gpuCheck(gpuMalloc(&me.inner, work * sizeof(double)));
  gpuLaunch(fill, n / 256, 256, me.outgoing, rank);
  gpuLaunch(fill, n / 256, 256, me.incoming, -1.0);
  gpuLaunch(fill, work / 256, 256, me.inner, 0.0);
  gpuCheck(gpuDeviceSynchronize());  // rule 1

  MPI_Request requests[2];
  double messages = median_ms([&] {
    me.start(requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  });
  double kernel = median_ms([&] {
    gpuLaunch(compute, work / 256, 256, me.inner, steps);
    gpuCheck(gpuDeviceSynchronize());
  });
  double both = median_ms([&] {
    me.start(requests);
    gpuLaunch(compute, work / 256, 256, me.inner, steps);  // rule 2
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    gpuCheck(gpuDeviceSynchronize());  // rule 3: from here on `incoming` and `inner` may be used
  });

  double ends[2];
  gpuCheck(gpuMemcpy(&ends[0], me.incoming, sizeof(double), gpuMemcpyDeviceToHost));
  gpuCheck(gpuMemcpy(&ends[1], me.incoming + n - 1, sizeof(double), gpuMemcpyDeviceToHost));
  bool good = ends[0] == me.left && ends[1] == me.left;
  std::printf("rank %d: messages %.3f ms, kernel %.3f ms, both %.3f ms; what was received is %s\n", rank, messages,
              kernel, both, good ? "right" : "WRONG");

  for (double* each : {me.outgoing, me.incoming, me.inner}) gpuCheck(gpuFree(each));
  MPI_Finalize();
  return good ? 0 : 1;
}
