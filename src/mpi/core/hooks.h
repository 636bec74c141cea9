// SPDX-License-Identifier: Apache-2.0
//
// Functions that higher folders (p2p, network, rma, file, stream) register with the core, so that the core
// need not name those folders. Each folder registers before main(), by a static initialiser. Any thread that
// calls MPI may call the functions.

#pragma once

#include <span>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

struct ForwardedReceive;

struct Hooks {
  // Called in each round of progress, with the engine's lock held.
  void (*advance)() = nullptr;
  // Are messages in flight on this communicator whose sends are complete for the program?
  bool (*has_messages_on)(MPI_Comm) = nullptr;
  // Called before a communicator is freed, without the lock: what is left to do on it ends first. Its error
  // is that of the call.
  int (*end_operations_on)(MPI_Comm) = nullptr;
  // Called in threads of Fairlead's before a round of progress.
  void (*lend_device)() = nullptr;
  // Called in each round of progress, without the lock: for host MPI functions that may call the program's
  // error handler, or MPI functions by their public names.
  void (*poll)() = nullptr;
  // Called before a call that only the host MPI can complete (gather.h): the members of the group all make
  // that call. The communicator is null, or has the same members.
  void (*gather)(MPI_Group, MPI_Comm) = nullptr;
  // A window of this communicator has been made.
  void (*made_window)(MPI_Comm, MPI_Win) = nullptr;
  // Makes an operation of a receive in flight (forwarded_receives.h).
  void (*watch)(const ForwardedReceive&) = nullptr;
  // A forwarded receive of a long message is complete.
  void (*received_long)() = nullptr;
};

// end_operations_on() of all.
int end_operations_on(MPI_Comm comm);

// Returns true, so that a static variable can hold the result.
bool add_hooks(const Hooks& hooks);
std::span<const Hooks> all_hooks();

}  // namespace fairlead::mpi
