// SPDX-License-Identifier: Apache-2.0
//
// Maps a rank of a communicator to a process. The map is built without communication at the first device
// message on the communicator. It is an attribute of the communicator, so MPI deletes it when it frees the
// communicator.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "mpi/abi/host_mpi.h"
#include "mpi/abi/mutex.h"

namespace fairlead::mpi {

// Returns the value of this attribute of a communicator; `make` creates it if there is none. A second thread
// that sets the attribute would delete the value that the first one reads, so all threads take one lock.
template <class Value, class Make>
Value* attribute_of(MPI_Comm comm, int keyval, const Make& make) {
  static auto& mutex = *new Mutex;
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

// Identifies an intra-communicator: on all members the same number, which no other communicator has of which
// two of them are members. It follows from how the communicator was made, without communication. 0: unknown,
// as for duplicates by MPI_Comm_idup and communicators of groups. `counts`: what mpi/p2p counts on it, null
// at first, until the communicator is freed; unset if the name is unknown.
struct MessageCounts;
uint64_t name_of(MPI_Comm comm, std::shared_ptr<MessageCounts>** counts);

// Lives while the host MPI makes a communicator by a call that is collective over `parent`. Members may
// disagree on the number of communicators that have been made once such a call has failed, so this rank knows
// no names from then on.
class Naming {
 public:
  explicit Naming(MPI_Comm parent) : parent_(parent) {}
  ~Naming();
  Naming(const Naming&) = delete;
  Naming& operator=(const Naming&) = delete;
  void succeed(MPI_Comm made);

 private:
  MPI_Comm parent_;
  bool failed_ = true;
};

// Messages on a communicator with the hint mpi_assert_allow_overtaking may match in any order: it loses its
// name, and so do those that will be made from it.
void note_overtaking(MPI_Comm comm, MPI_Info info);

// `world`: MPI_COMM_WORLD, or MPI_COMM_NULL if no other rank is known. Must be closed before it is opened
// again.
void open_communicators(MPI_Comm world);
void close_communicators();

}  // namespace fairlead::mpi
