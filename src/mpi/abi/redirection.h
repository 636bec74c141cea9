// SPDX-License-Identifier: Apache-2.0
//
// References of other objects to MPI functions, which Fairlead changes in memory so that each call goes where
// it belongs: those of the program and of tools to Fairlead, those of the host MPI to the host MPI.

#pragma once

namespace fairlead::mpi {

// The host MPI's calls of its own functions stay inside it (quirk calls_itself): each reference to an MPI_X
// of Fairlead becomes one to the host MPI's PMPI_X.
void keep_calls_of_host_inside();

// What the program, or one of its libraries, calls by a profiling name reaches Fairlead as well: each
// reference to a PMPI_X becomes one to Fairlead's MPI_X.
void redirect_program();

}  // namespace fairlead::mpi
