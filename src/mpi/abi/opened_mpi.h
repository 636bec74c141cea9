// SPDX-License-Identifier: Apache-2.0
//
// A host MPI that comes after us: Python, Julia and plugins open their MPI when the process is long running,
// and mostly keep its symbols to themselves. By then the loader has bound our references to it, which are
// weak, to null.

#pragma once

namespace fairlead::mpi {

// Opens the symbols of the host MPI to the whole process, and binds to them what the loader left at null.
// True where a host MPI is there. Costs nothing once it is done; thread-safe.
bool bind_opened_mpi();

// The definition of `symbol` in any object of this process besides the one that RTLD_DEFAULT finds; null
// where there is none.
void* find_anywhere(const char* symbol);

}  // namespace fairlead::mpi
