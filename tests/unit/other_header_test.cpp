// SPDX-License-Identifier: Apache-2.0
//
// Proves by being compiled that a header may declare what we define, with other parameters const: these, as
// MPICH 4.2 does. Headers that do not know MPI 4.1 do not declare them at all.

#include <mpi.h>

#if MPI_VERSION * 10 + MPI_SUBVERSION < 41
extern "C" int MPI_Request_get_status_all(int count, MPI_Request requests[], int* flag,
                                          MPI_Status statuses[]);
extern "C" int MPI_Request_get_status_any(int count, MPI_Request requests[], int* index, int* flag,
                                          MPI_Status* status);
extern "C" int MPI_Request_get_status_some(int incount, MPI_Request requests[], int* outcount, int indices[],
                                           MPI_Status statuses[]);
#endif

#include "mpi/core/requests/request_get_status.cpp"
