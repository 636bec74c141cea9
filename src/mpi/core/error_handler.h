// SPDX-License-Identifier: Apache-2.0
//
// Errors of ours on their way to the program's error handlers. The host MPI, which calls those for us, names
// MPI_Comm_call_errhandler and nothing else; so a line in the log says before which call met the error and
// what that was about: at level error where the handler ends the program, else at level info.

#pragma once

#include "mpi/abi/host_mpi.h"
//
#include <string>

#include "mpi/datatype/layout.h"

namespace fairlead::mpi {

// `about`: "a send of 4096 bytes to rank 1 with tag 5". Returns `code`.
int raise_error(MPI_Comm comm, int code, const std::string& about);
int raise_window_error(MPI_Win win, int code, const std::string& about);

// "to rank 1 with tag 5", "from any rank with any tag"
std::string peer_in_words(const char* direction, int rank, int tag);
std::string bytes_in_words(MPI_Count bytes);

// Of a buffer that reaches beyond its allocation in device memory, to be put behind words about a message; ""
// of any other. (Of virtual memory that may be right, where several allocations were mapped one behind the
// other.)
std::string overrun(const void* address, const Layout& layout);

}  // namespace fairlead::mpi
