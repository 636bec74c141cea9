// SPDX-License-Identifier: Apache-2.0
//
// Keeps the handles that a nonblocking or persistent collective uses alive until it ends: the communicator,
// the datatypes and the reduction operation. For persistent messages it keeps the communicator. A program may
// free these handles right after its call, but Fairlead may pass the call to the host MPI only later: a
// persistent one at each start. MPI_Comm_free, MPI_Type_free and MPI_Op_free of a handle in use therefore
// leave it to its last user, who frees it for the program. MPICH's mpi_f08 creates a datatype for an array
// section and frees it with PMPI_Type_free, which Fairlead does not intercept; a datatype derived from it
// keeps it alive.

#pragma once

#include <vector>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

class KeptCommunicator {
 public:
  explicit KeptCommunicator(MPI_Comm comm);
  ~KeptCommunicator();
  KeptCommunicator(const KeptCommunicator&) = delete;
  KeptCommunicator& operator=(const KeptCommunicator&) = delete;

 private:
  MPI_Comm comm_;
};

class KeptHandles {
 public:
  // `types` may contain predefined types.
  KeptHandles(MPI_Comm comm, MPI_Op op, const std::vector<MPI_Datatype>& types);
  ~KeptHandles();
  KeptHandles(const KeptHandles&) = delete;
  KeptHandles& operator=(const KeptHandles&) = delete;

 private:
  KeptCommunicator comm_;
  MPI_Op op_;
  std::vector<MPI_Datatype> types_, made_of_them_;
};

}  // namespace fairlead::mpi
