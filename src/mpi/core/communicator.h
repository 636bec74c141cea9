// SPDX-License-Identifier: Apache-2.0
//
// Which process a rank of a communicator is. Found without communication at the first device message on
// the communicator, and kept as an attribute of it, so that it goes when the communicator goes.

#pragma once

#include <mutex>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// What is kept as an attribute of a communicator under this key; `make` gives it where there is none yet. A
// second thread that sets the attribute would delete what the first one reads, so all wait for each other.
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

// Rank in MPI_COMM_WORLD of `rank` of `comm`; -1 when it is in another job, or unknown: messages to it travel
// plain. (MPI_PROC_NULL and wildcards give -1.)
int rank_in_world(MPI_Comm comm, int rank);

// Is there an MPI_COMM_WORLD whose ranks Fairlead serves? Not in programs of sessions alone (sessions.h).
bool has_world();

// `world`: MPI_COMM_WORLD, or MPI_COMM_NULL where no other rank is known. Closed before it is opened again.
void open_communicators(MPI_Comm world);
void close_communicators();

}  // namespace fairlead::mpi
