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

}  // namespace fairlead::mpi
