// SPDX-License-Identifier: Apache-2.0
//
// The file's order of what several threads of a process do with its individual file pointer: an access that
// is made in pieces comes before or after any other as a whole. Only an access of this rank alone may have
// the pointer for itself, and only if nobody uses it; all others wait until that access has ended, but never
// for each other, because a collective may wait for what another thread does.

#pragma once

#include <cstdint>
#include <optional>
#include <thread>

#include "mpi/abi/host_mpi.h"

namespace fairlead::mpi {

// In place of an offset: the file pointers.
inline constexpr MPI_Offset own_pointer = INT64_MIN, shared_pointer = INT64_MIN + 1;

// Lives while the host MPI may use the pointer. The thread that has the pointer for itself may take further
// turns: the program's error handler may access the file.
class PointerTurn {
 public:
  enum class With { others, nobody_if_free };
  // For an access there, which may be elsewhere than at the pointer.
  PointerTurn(MPI_File file, MPI_Offset offset, With with = With::others);
  ~PointerTurn();
  PointerTurn(const PointerTurn&) = delete;
  PointerTurn& operator=(const PointerTurn&) = delete;

  // Does this thread have the pointer for itself?
  static bool is_alone(MPI_File file);

 private:
  std::optional<MPI_File> file_;  // none if no other thread can use the pointer
  bool alone_ = false;
};

}  // namespace fairlead::mpi
