// SPDX-License-Identifier: Apache-2.0
//
// HOST_MPI(X): the host MPI's own MPI_X. What a program calls by PMPI_X reaches Fairlead, what dlsym() finds
// under this name does not.

#pragma once

#include <dlfcn.h>
#include <mpi.h>

#define HOST_MPI(Function) \
  (reinterpret_cast<decltype(&PMPI_##Function)>(dlsym(RTLD_DEFAULT, "PMPI_" #Function)))
