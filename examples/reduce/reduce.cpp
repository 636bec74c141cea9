// SPDX-License-Identifier: Apache-2.0
//
// A dot product of two vectors that lie on the GPUs of all ranks: each GPU sums its part, MPI_Allreduce sums the parts,
// and the result is on every GPU, where the next kernel can use it. The program copies no number to the host for that.

#include <mpi.h>

#include <cmath>
#include <cstdio>

#include "../choose_gpu.h"

constexpr int n = 1 << 20, parts = 1024;

__global__ void fill(double* a, double* b, double value) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  a[i] = value;
  b[i] = 2.0;
}

// Each thread takes every parts-th element: the sum has the same order on every GPU.
__global__ void multiply(double* sums, const double* a, const double* b) {
  int first = blockIdx.x * blockDim.x + threadIdx.x;
  double sum = 0;
  for (int i = first; i < n; i += parts) sum += a[i] * b[i];
  sums[first] = sum;
}

// MPI has summed the parts of all ranks; one thread adds them up and takes the root.
__global__ void finish(double* norm, const double* sums) {
  double sum = 0;
  for (int i = 0; i < parts; ++i) sum += sums[i];
  *norm = sqrt(sum);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  choose_gpu(MPI_COMM_WORLD);

  double *a, *b, *sums, *norm;
  gpuCheck(gpuMalloc(&a, n * sizeof(double)));
  gpuCheck(gpuMalloc(&b, n * sizeof(double)));
  gpuCheck(gpuMalloc(&sums, parts * sizeof(double)));
  gpuCheck(gpuMalloc(&norm, sizeof(double)));

  gpuLaunch(fill, n / 256, 256, a, b, rank + 1.0);
  gpuLaunch(multiply, parts / 256, 256, sums, a, b);
  gpuCheck(gpuDeviceSynchronize());  // MPI does not wait for kernels
  MPI_Allreduce(MPI_IN_PLACE, sums, parts, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  gpuLaunch(finish, 1, 1, norm, sums);

  double found, expected = std::sqrt(static_cast<double>(n) * ranks * (ranks + 1));
  gpuCheck(gpuMemcpy(&found, norm, sizeof found, gpuMemcpyDeviceToHost));  // this copy does wait for kernels
  bool good = std::fabs(found - expected) < 1e-12 * expected;
  std::printf("rank %d: the norm is %.6f, %s\n", rank, found, good ? "right" : "WRONG");

  for (double* each : {a, b, sums, norm}) gpuCheck(gpuFree(each));
  MPI_Finalize();
  return good ? 0 : 1;
}
