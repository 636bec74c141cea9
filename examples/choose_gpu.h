// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a node take its GPUs in turn. Call it after MPI_Init and before anything else of the GPU: what is
// allocated before belongs to GPU 0.
//
// A launcher that shows each rank its own GPU only (CUDA_VISIBLE_DEVICES, fairlead run --visible) is served as
// well: there is one, and it is taken.

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
  }
  gpuCheck(gpuSetDevice(local_rank % gpus));
  return local_rank % gpus;
}
