// SPDX-License-Identifier: Apache-2.0
//
// FAIRLEAD_CHECK=collectives: the ranks compare what they pass to each collective call, on a duplicate of its
// communicator. A blocking call, and the making of a persistent one, waits for the comparison before it
// starts; a nonblocking call waits for some milliseconds, and the comparison goes on while the program makes
// MPI calls. All functions compare by the same exchange, so ranks in different functions meet there. If what
// they pass does not match, rank 0 of the communicator names the groups of ranks with their calls and call
// sites, and the job ends.
//
// The exchange is one sum over all ranks, of 64-bit numbers. Each rank adds the number of what it gives to
// each other and subtracts that of what it expects from each; its call counts as given to the next rank and
// expected from the rank before. If all matches, the sum is 0; if not, it is 0 with a probability of 2^-64.
// Only then the ranks send rank 0 what they passed.

#pragma once

#include "mpi/coll/collective_call.h"
#include "mpi/coll/communicator_state.h"

namespace fairlead::mpi {

enum class Form { blocking, nonblocking, persistent };

// Call it before anything else of the call that other ranks notice. The error of the arguments, if any: with
// wrong ones on any rank, nothing is compared. Returns if they match; in a nonblocking call also if that is
// not known yet.
void compare_ranks(CommunicatorState& state, const CollectiveCall& call, Form form, bool is_wrong);

// Of nonblocking calls.
bool comparing();

}  // namespace fairlead::mpi
