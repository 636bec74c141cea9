// SPDX-License-Identifier: Apache-2.0
//
// Proves by being compiled that include/fairlead/partitioned.h serves CUDA and HIP sources: device code, and
// host code beside it.

#include <fairlead/partitioned.h>

#ifndef __global__  // clang without the vendor's headers
#define __global__ __attribute__((global))
#endif

__global__ void mark(int partition, MPIX_Prequest prequest) {
  MPIX_Pready(partition, prequest);
}

__global__ void store(int partition, MPIX_Prequest prequest, unsigned thread, unsigned threads) {
  MPIX_Pready_block(partition, prequest, thread, threads);
}

__global__ void await(MPIX_Prequest prequest, int partition) {
  for (int flag = 0; !flag;) MPIX_Parrived(prequest, partition, &flag);
}

int mark_on_host(MPIX_Prequest prequest) {
  int flag = 0;
  return MPIX_Pready(0, prequest) + MPIX_Pready_block(0, prequest, 0, 1) + MPIX_Parrived(prequest, 0, &flag) +
         flag;
}
