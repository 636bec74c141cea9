// SPDX-License-Identifier: Apache-2.0
//
// Preloaded by a test: an MPI with faults. Needs no data of the MPI's, so that programs without MPI can load
// it.

#include <mpi.h>

namespace {

bool in_rank_1(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return rank == 1;
}

}  // namespace

// The ninth byte of what rank 1 receives is wrong, where there are 16 or more.
int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op operation, MPI_Comm comm) {
  int error = PMPI_Allreduce(from, to, count, type, operation, comm), size = 0;
  PMPI_Type_size(type, &size);
  if (in_rank_1(comm) && count * size >= 16) static_cast<char*>(to)[8] ^= 1;
  return error;
}

// Fails for 40 elements, and for 48 in rank 1 alone.
int MPI_Allgather(const void* from, int sent, MPI_Datatype sent_type, void* to, int received,
                  MPI_Datatype received_type, MPI_Comm comm) {
  if (sent == 40 || (sent == 48 && in_rank_1(comm))) return MPI_ERR_COUNT;
  return PMPI_Allgather(from, sent, sent_type, to, received, received_type, comm);
}
