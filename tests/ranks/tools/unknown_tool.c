// SPDX-License-Identifier: Apache-2.0
//
// A tool before Fairlead whose calls do not come to Fairlead: it wraps a function and refers to no MPI by
// itself. With PLAYS_MPI it is an MPI library.

#include <mpi.h>

int MPI_Barrier(MPI_Comm comm) {
  (void)comm;
  return MPI_ERR_OTHER;
}

#ifdef PLAYS_MPI
int PMPI_Init(int* argc, char*** argv) {
  (void)argc;
  (void)argv;
  return MPI_ERR_OTHER;
}
#endif
