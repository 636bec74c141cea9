// SPDX-License-Identifier: Apache-2.0
//
// What the folders above the core (p2p, rma) want the core to call, so that it need not name them. Each
// registers its functions before main(), by a static initialiser; they are called from any thread that calls
// MPI.

#pragma once

#include <span>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

struct Hooks {
  // In each round of progress, with the engine's lock held.
  void (*advance)() = nullptr;
  // Are messages still under way on this communicator whose sends are over for the program?
  bool (*has_messages_on)(MPI_Comm) = nullptr;
  // One more (+1), or one fewer (-1), thread of this rank is blocked in the host MPI.
  void (*note_blocked)(int change) = nullptr;
  // Before a call that only the host MPI can end (gather.h).
  void (*gather)(MPI_Comm) = nullptr;
};

// True, so that a static variable can hold it.
bool add_hooks(const Hooks& hooks);
std::span<const Hooks> all_hooks();

}  // namespace fairlead::mpi
