// SPDX-License-Identifier: Apache-2.0
//
// Plays an MPI that takes the memory of Intel's GPUs, for which Fairlead has no provider: a library preloaded
// behind Fairlead that says so. It moves nothing.

extern "C" int MPIX_Query_ze_support() {
  return 1;
}
