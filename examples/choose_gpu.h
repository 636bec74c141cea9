// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a node take its GPUs in turn. Call this after MPI_Init and before any other GPU call: memory that is
// allocated before is on GPU 0.
//
// It also works if a launcher makes only one GPU visible to each rank (CUDA_VISIBLE_DEVICES, fairlead run --visible):
// then the count is one.

#pragma once

#include <mpi.h>

#include "gpu.h"

inline int choose_gpu(MPI_Comm comm) {
  MPI_Comm node;
  int rank, local_rank, gpus = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &local_rank);
  MPI_Comm_free(&node);
  if (gpuGetDeviceCount(&gpus) != gpuSuccess || gpus == 0) {
    std::fprintf(stderr, "rank %d finds no GPU\n", rank);
    MPI_Abort(comm, 77);
    return -1;
  }
  gpuCheck(gpuSetDevice(local_rank % gpus));
  return local_rank % gpus;
}
