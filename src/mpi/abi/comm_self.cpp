// SPDX-License-Identifier: Apache-2.0

#include "mpi/abi/comm_self.h"

namespace fairlead::mpi {
namespace {

MPI_Comm own = MPI_COMM_NULL;

}  // namespace

MPI_Comm comm_self() {
  return has_world() ? MPI_COMM_SELF : own;
}

void set_own_comm_self(MPI_Comm comm) {
  own = comm;
}

}  // namespace fairlead::mpi
