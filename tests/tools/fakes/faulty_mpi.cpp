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

int without_last_of_16_bytes(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  return count * size == 16 ? count - 1 : count;
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

// Of a window, 16 bytes lack their last element.
int MPI_Put(const void* from, int sent, MPI_Datatype sent_type, int target, MPI_Aint at, int put,
            MPI_Datatype type, MPI_Win window) {
  return PMPI_Put(from, without_last_of_16_bytes(sent, sent_type), sent_type, target, at,
                  without_last_of_16_bytes(put, type), type, window);
}

int MPI_Get(void* to, int received, MPI_Datatype received_type, int target, MPI_Aint at, int got,
            MPI_Datatype type, MPI_Win window) {
  return PMPI_Get(to, without_last_of_16_bytes(received, received_type), received_type, target, at,
                  without_last_of_16_bytes(got, type), type, window);
}

int MPI_Accumulate(const void* from, int sent, MPI_Datatype sent_type, int target, MPI_Aint at, int put,
                   MPI_Datatype type, MPI_Op operation, MPI_Win window) {
  return PMPI_Accumulate(from, without_last_of_16_bytes(sent, sent_type), sent_type, target, at,
                         without_last_of_16_bytes(put, type), type, operation, window);
}

// Done twice.
int MPI_Fetch_and_op(const void* from, void* to, MPI_Datatype type, int target, MPI_Aint at, MPI_Op operation,
                     MPI_Win window) {
  PMPI_Fetch_and_op(from, to, type, target, at, operation, window);
  PMPI_Win_flush(target, window);
  return PMPI_Fetch_and_op(from, to, type, target, at, operation, window);
}

// Never swaps.
int MPI_Compare_and_swap(const void* from, const void*, void* to, MPI_Datatype type, int target, MPI_Aint at,
                         MPI_Win window) {
  return PMPI_Compare_and_swap(from, from, to, type, target, at, window);
}
