// SPDX-License-Identifier: Apache-2.0
//
// Functions of MPI 4, which are looked up, so that a benchmark program serves an MPI that has them though it
// was built for an older one.

#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "common/failure.h"

namespace fairlead::tools {

// Null if the host MPI has none. Fairlead exports all of them; whether the host MPI has one its PMPI name
// tells. Needs no MPI_Init.
template <class Function>
Function find_of_mpi4(const std::string& name) {
  auto function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name.c_str()));
  return dlsym(RTLD_DEFAULT, ("P" + name).c_str()) ? function : nullptr;
}

// The same, but throws a cannot_run Failure.
template <class Function>
Function function_of_mpi4(const std::string& name) {
  if (auto function = find_of_mpi4<Function>(name)) return function;
  throw cannot_run(
      fmt::format("this MPI has no {}, a function of MPI 4; MPICH 4 and Open MPI 5 have it", name));
}

}  // namespace fairlead::tools
