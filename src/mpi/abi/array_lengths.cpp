// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/array_lengths.h"

#include "mpi/abi/neighbors.h"

namespace fairlead::mpi {
namespace {

Neighbors own_neighbors(MPI_Comm comm) {
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return neighbors_of(comm, rank);
}

}  // namespace

int peers_of(MPI_Comm comm) {
  int inter = 0, number = 0;
  PMPI_Comm_test_inter(comm, &inter);
  inter ? PMPI_Comm_remote_size(comm, &number) : PMPI_Comm_size(comm, &number);
  return number;
}

int peers_at_root(int root, MPI_Comm comm) {
  int inter = 0, rank = 0;
  PMPI_Comm_test_inter(comm, &inter);
  PMPI_Comm_rank(comm, &rank);
  return root == (inter ? MPI_ROOT : rank) ? peers_of(comm) : 0;
}

int members_of(MPI_Comm comm) {
  int number = 0;
  PMPI_Comm_size(comm, &number);
  return number;
}

int destinations_of(MPI_Comm comm) {
  return static_cast<int>(own_neighbors(comm).out.size());
}

int sources_of(MPI_Comm comm) {
  return static_cast<int>(own_neighbors(comm).in.size());
}

}  // namespace fairlead::mpi
