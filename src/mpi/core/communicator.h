// SPDX-License-Identifier: Apache-2.0
//
// Maps a rank of a communicator to a process. The map is built without communication at the first device
// message on the communicator. It is an attribute of the communicator, so MPI deletes it when it frees the
// communicator.

#pragma once

#include <mutex>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// Returns the value of this attribute of a communicator; `make` creates it if there is none. A second thread
// that sets the attribute would delete the value that the first one reads, so all threads take one lock.
template <class Value, class Make>
Value* attribute_of(MPI_Comm comm, int keyval, const Make& make) {
  static auto& mutex = *new std::mutex;
  std::lock_guard lock(mutex);
  Value* value = nullptr;
  int found = 0;
  PMPI_Comm_get_attr(comm, keyval, &value, &found);
  if (!found) {
    value = make();
    PMPI_Comm_set_attr(comm, keyval, value);
  }
  return value;
}

// Returns the rank in MPI_COMM_WORLD of `rank` of `comm`; -1 if that process is in another job or unknown, so
// that messages to it are staged through host memory. (MPI_PROC_NULL and wildcards give -1.)
int rank_in_world(MPI_Comm comm, int rank);

// `world`: MPI_COMM_WORLD, or MPI_COMM_NULL if no other rank is known. Must be closed before it is opened
// again.
void open_communicators(MPI_Comm world);
void close_communicators();

}  // namespace fairlead::mpi
