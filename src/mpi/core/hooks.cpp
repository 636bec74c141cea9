// SPDX-License-Identifier: Apache-2.0

#include "mpi/core/hooks.h"

#include <array>
#include <cstddef>

namespace fairlead::mpi {
namespace {

// Initialized before the first static initialiser runs, whichever file contains that.
constinit std::array<Hooks, 8> registered{};
constinit size_t count = 0;

}  // namespace

bool add_hooks(const Hooks& hooks) {
  registered.at(count++) = hooks;
  return true;
}

std::span<const Hooks> all_hooks() {
  return {registered.data(), count};
}

int end_operations_on(MPI_Comm comm) {
  int first = MPI_SUCCESS;
  for (const Hooks& hooks : all_hooks()) {
    const int error = hooks.end_operations_on ? hooks.end_operations_on(comm) : MPI_SUCCESS;
    if (first == MPI_SUCCESS) first = error;
  }
  return first;
}

}  // namespace fairlead::mpi
