// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/comm_self.h"

namespace fairlead::mpi {
namespace {

bool world_exists = false;
MPI_Comm own = MPI_COMM_NULL;

}  // namespace

MPI_Comm comm_self() {
  return world_exists ? MPI_COMM_SELF : own;
}

void use_world_comm_self(bool exists) {
  world_exists = exists;
}

void set_own_comm_self(MPI_Comm comm) {
  own = comm;
}

}  // namespace fairlead::mpi
