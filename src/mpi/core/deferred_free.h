// SPDX-License-Identifier: Apache-2.0
//
// What a nonblocking or persistent collective uses until it is over: the communicator, datatypes, the
// reduction operation; and of persistent messages, the communicator. A program may free them right after its
// call, but Fairlead may hand the call to the host MPI only later, at each start of a persistent one. So
// MPI_Comm_free, MPI_Type_free and MPI_Op_free of what is in use leave the handle to its last user, who frees
// it for the program. MPICH's mpi_f08 makes a datatype of an array section and frees it by PMPI_Type_free,
// past us: a datatype that is made of it keeps it there.

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
  // `types` may hold predefined ones.
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
