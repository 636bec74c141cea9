// SPDX-License-Identifier: Apache-2.0
//
// Raises Fairlead's errors in the program's error handlers. Fairlead calls those through the host MPI, whose
// message names only MPI_Comm_call_errhandler. A log line therefore first states which call met the error and
// what that call did: at level error if the handler ends the program, otherwise at level info.

#pragma once

#include "mpi/abi/host_mpi.h"
//
#include <string>
#include <vector>

#include "mpi/datatype/layout.h"

namespace fairlead::mpi {

// `about` describes the operation: "a send of 4096 bytes to rank 1 with tag 5". Returns `code`, and does no
// more if there is no communicator.
int raise_error(MPI_Comm comm, int code, const std::string& about);
int raise_window_error(MPI_Win win, int code, const std::string& about);
int raise_file_error(MPI_File file, int code, const std::string& about);
// Where errors of a call are raised that concern no communicator: MPI_COMM_WORLD, as host MPIs do. In a
// program that uses sessions alone it returns errors; if Fairlead is off there, it is MPI_COMM_NULL.
MPI_Comm comm_of_no_object();
// For a function of Fairlead's own that cannot do what it is called for: logs why, and raises the error.
int refuse_call(MPI_Comm comm, const char* function, int code, const std::string& why);
// Why the progress thread can do no work that a call needs, and the remedy; "" if it can.
std::string why_no_progress_thread();

// "to rank 1 with tag 5", "from any rank with any tag"
std::string peer_in_words(const char* direction, int rank, int tag);
// "rank 0", "ranks 0, 2"
std::string ranks_in_words(const std::vector<int>& ranks);
std::string bytes_in_words(MPI_Count bytes);

// Returns text about a buffer that extends beyond its allocation in device memory, to append to the
// description of a message; "" for any other buffer. (In virtual memory such a buffer can be valid, if
// several allocations were mapped one behind the other.)
std::string overrun(const void* address, const Layout& layout);

}  // namespace fairlead::mpi
