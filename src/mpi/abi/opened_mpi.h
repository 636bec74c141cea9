// SPDX-License-Identifier: Apache-2.0
//
// A host MPI that is opened by dlopen() after Fairlead is loaded. Python, Julia and plugins open their MPI
// when the process has long been running, and mostly keep its symbols local. By then the loader has bound
// Fairlead's references to the MPI, which are weak, to null.

#pragma once

namespace fairlead::mpi {

// Makes the symbols of the host MPI global in the process, and binds to them the references that the loader
// left at null. Returns true if there is a host MPI. Costs nothing once it has succeeded; thread-safe.
bool bind_opened_mpi();

// Returns the definition of `symbol` in any object of this process other than the one that RTLD_DEFAULT
// finds, or null if there is none.
void* find_anywhere(const char* symbol);

}  // namespace fairlead::mpi
